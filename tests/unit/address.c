/* URLs: their meaning, those that are refused, and that no message reveals a password. */
#include "../check.h"

#include "net/address.h"

/* The meaning of a good URL; NULL and 0 for parts that it lacks. */
typedef struct {
    const char *url, *host, *path, *user, *secret, *shown;
    int port, database;
} good_url;

static const good_url good[] = {
    {"redis://localhost", "localhost", NULL, NULL, NULL, "redis://localhost:6379", 6379, 0},
    {"redis://localhost/", "localhost", NULL, NULL, NULL, "redis://localhost:6379", 6379, 0},
    {"redis://10.0.0.1:6380/3", "10.0.0.1", NULL, NULL, NULL, "redis://10.0.0.1:6380", 6380, 3},
    {"redis://h:1", "h", NULL, NULL, NULL, "redis://h:1", 1, 0},
    {"redis://h:65535/1000000", "h", NULL, NULL, NULL, "redis://h:65535", 65535, 1000000},
    {"redis://h?db=5", "h", NULL, NULL, NULL, "redis://h:6379", 6379, 5},
    {"redis://[::1]", "::1", NULL, NULL, NULL, "redis://[::1]:6379", 6379, 0},
    {"redis://[fe80::1%25eth0]:7000/2", "fe80::1%eth0", NULL, NULL, NULL,
     "redis://[fe80::1%eth0]:7000", 7000, 2},
    {"redis://:hunter2@h", "h", NULL, NULL, "hunter2", "redis://h:6379", 6379, 0},
    {"redis://ann:hunter2@[::1]:1/2", "::1", NULL, "ann", "hunter2", "redis://[::1]:1", 1, 2},
    /* A password is everything between the first : and the last @, and may be empty. */
    {"redis://ann:a:b@c@h", "h", NULL, "ann", "a:b@c", "redis://h:6379", 6379, 0},
    {"redis://ann:@h", "h", NULL, "ann", "", "redis://h:6379", 6379, 0},
    {"redis://a%3Ab:%40%2f%3F%25%C3%A9@h", "h", NULL, "a:b", "@/?%\xc3\xa9", "redis://h:6379", 6379,
     0},
    {"unix:///run/redis.sock", NULL, "/run/redis.sock", NULL, NULL, "unix:///run/redis.sock", 0, 0},
    {"unix:///run/redis.sock?db=7", NULL, "/run/redis.sock", NULL, NULL, "unix:///run/redis.sock",
     0, 7},
    {"unix://ann:hunter2@/run/a%20b", NULL, "/run/a b", "ann", "hunter2", "unix:///run/a b", 0, 0},
    {"unix://:hunter2@/s", NULL, "/s", NULL, "hunter2", "unix:///s", 0, 0},
};

static void assert_text(const char *found, const char *expected) {
    if (expected == NULL)
        assert_null(found);
    else
        assert_string_equal(found, expected);
}

static void test_good_urls_mean_what_they_say(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        hf_address address;
        print_message("%s\n", good[i].url);
        assert_status(hf_address_parse(good[i].url, &address), HF_OK);
        assert_text(address.place.host, good[i].host);
        assert_text(address.path, good[i].path);
        assert_text(address.user, good[i].user);
        assert_text(address.secret, good[i].secret);
        assert_text(address.shown, good[i].shown);
        assert_int_equal(address.place.port, good[i].port);
        assert_int_equal(address.database, good[i].database);
        hf_address_free(&address);
    }
}

static void test_options_are_the_callers_then_the_urls_then_the_defaults(void **state) {
    hf_client_options chosen = {.size = sizeof chosen, .connect_timeout_ms = 7};
    hf_address address;
    (void)state;
    assert_status(hf_address_parse("redis://h?connect_timeout=3&command_timeout=0.25&keepalive=2.5&"
                                   "client_name=till%2D7&fence_life=60",
                                   &address),
                  HF_OK);
    assert_status(hf_address_options(&address, &chosen), HF_OK);
    assert_int_equal(address.options.connect_timeout_ms, 7);
    assert_int_equal(address.options.command_timeout_ms, 250);
    assert_int_equal(address.options.keepalive_ms, 2500);
    assert_int_equal(address.options.fence_life_ms, 60000);
    assert_string_equal(address.options.client_name, "till-7");
    hf_address_free(&address);

    assert_status(hf_address_parse("redis://h?keepalive=0", &address), HF_OK);
    chosen = (hf_client_options){.size = sizeof chosen, .client_name = "stock"};
    assert_status(hf_address_options(&address, &chosen), HF_OK);
    assert_int_equal(address.options.connect_timeout_ms, 2000);
    assert_int_equal(address.options.keepalive_ms, HF_NEVER);
    assert_int_equal(address.options.fence_life_ms, 0); /* a day: no value is sent */
    assert_string_equal(address.options.client_name, "stock");
    hf_address_free(&address);
}

static void refuse(const char *url, hf_status status) {
    hf_address address;
    print_message("%s\n", url);
    assert_status(hf_address_parse(url, &address), status);
    assert_null(address.place.host);
    assert_null(address.path);
    assert_null(address.secret);
    assert_null(address.shown);
}

static void test_malformed_urls_are_refused_with_the_reason(void **state) {
    static const char *const bad[][2] = {
        {"", "redis://host"},
        {"localhost", "redis://host"},
        {"localhost:6379", "redis://host"},
        {"redis:localhost", "redis://host"},
        {"redis:/localhost", "redis://host"},
        {"://localhost", "unknown scheme"},
        {" redis://localhost", "must begin with one of redis"},
        {"redis://", "no host"},
        {"redis:///", "no host"},
        {"redis:///1", "no host"},
        {"redis://:6379", "no host"},
        {"redis://[]", "no host"},
        {"redis://[::1", "[ in the host is not closed"},
        {"redis://[::1]x", "[ in the host is not closed"},
        {"redis://::1", "needs brackets, like [::1]"},
        {"redis://::1:6379", "needs brackets, like [::1]"},
        {"redis://:a@fe80::1:6379/0", "needs brackets, like [::1]"},
        {"redis+cluster://h,::1:6379", "needs brackets, like [::1]"},
        {"redis://h:", "port must be"},
        {"redis://h:0", "port must be"},
        {"redis://h:65536", "port must be"},
        {"redis://h:-1", "port must be"},
        {"redis://h:6379x", "port must be"},
        {"redis://h:99999999999999999999", "port must be"},
        {"redis://h/x", "database must be a number"},
        {"redis://h/-1", "database must be a number"},
        {"redis://h/1/2", "database must be a number"},
        {"redis://h/1000001", "database must be a number"},
        {"redis://h/4294967296", "database must be a number"},
        {"redis://h?db=", "db takes a number"},
        {"redis://h?db", "db takes a number"},
        {"redis://h?db=1x", "db takes a number"},
        {"redis://h?dv=1", "unknown option 'dv' in the URL: after the ? it takes db, tls_ca"},
        {"redis://:a@h:1?db=1&tls=yes&x=", "unknown option 'tls' in"},
        {"redis+cluster://h,i?db%31=0", "unknown option 'db%31' in"},
        {"unix:///run/s?DB=1", "unknown option 'DB' in"},
        {"redis://h?tls", "an option without a name or a value in the URL"},
        {"redis://h?=1", "an option without a name or a value in the URL"},
        {"redis://h/1?db=2", "twice"},
        {"redis://h?tls_ca=x", "need rediss://"},
        {"redis://h?tls_verify=off", "need rediss://"},
        {"rediss://h?tls_verify=maybe", "on or off"},
        {"rediss://h?tls_ca=", "one value"},
        {"rediss://h?tls_ca=a&tls_ca=b", "one value"},
        {"redis://h?password_file=a&password_env=B", "not both"},
        {"redis+sentinel://h", "host,host,host/service/0"},
        {"redis+sentinel://h/", "host,host,host/service/0"},
        {"redis+sentinel://h,/mine", "no host"},
        {"redis+sentinel://h,i:0/mine", "port must be"},
        {"redis+sentinel://h/mine/x", "database must be a number"},
        {"redis://h/0#fragment", "%23"},
        {"redis://ann@h", "user:password"},
        {"redis://:a%zz@h", "bad % escape"},
        {"redis://:a%4@h", "bad % escape"},
        {"redis://:a%@h", "bad % escape"},
        {"redis://:a%00@h", "bad % escape"},
        {"redis://h%00", "bad % escape"},
        {"redis://:a/b@h", "%2F"},
        {"redis://:a?b@h", "%3F"},
        {"redis://:a#b@h", "%23"},
        {"unix://", "three /"},
        {"unix://run/redis.sock", "three /"},
        {"unix://:a@run/redis.sock", "three /"},
        {"unix:///run/%00", "bad % escape"},
        {"unix:///run/a@b", "%40"},
        {"unix://ann:a/b@/run/c@d", "%40"},
        {"redis+sentinel://ann:a@b/:c@d", "%40"},
        {"redis+cluster://h/1", "only the database 0"},
        {"redis+cluster://h?db=1", "only the database 0"},
        {"redis+cluster://h,", "no host"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        refuse(bad[i][0], HF_EINVAL);
        assert_message(bad[i][1]);
    }
    char url[128] = "unix://";
    memset(url + 7, '/', 108); /* sun_path has 108 bytes, and a NUL */
    refuse(url, HF_EINVAL);
    assert_message("longer than 107");
}

static void test_a_scheme_may_be_valkeys_and_in_any_case(void **state) {
    static const struct {
        const char *url;
        int kind;
        bool tls;
    } schemes[] = {
        {"valkey://h", HF_SERVER, false},
        {"valkeys://h", HF_SERVER, true},
        {"valkey+sentinel://h/mine", HF_SENTINEL, false},
        {"valkeys+sentinel://h/mine", HF_SENTINEL, true},
        {"valkey+cluster://h", HF_CLUSTER, false},
        {"valkeys+cluster://h", HF_CLUSTER, true},
        {"REDIS://h", HF_SERVER, false},
        {"Rediss+Cluster://h", HF_CLUSTER, true},
        {"ValKeys://h", HF_SERVER, true},
        {"UNIX:///s", HF_SERVER, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        hf_address address;
        assert_status(hf_address_parse(schemes[i].url, &address), HF_OK);
        assert_int_equal(address.kind, schemes[i].kind);
        assert_int_equal(address.tls, schemes[i].tls);
        hf_address_free(&address);
    }
}

static void test_unknown_schemes_are_named(void **state) {
    static const char *const unknown[] = {"cluster", "redis-cluster", "unixs", "valke", "redissx"};
    (void)state;
    for (size_t i = 0; i < COUNT(unknown); i++) {
        refuse(text("%s://:hunter2@h", unknown[i]), HF_EINVAL);
        assert_message(text("unknown scheme '%s'", unknown[i]));
    }
    refuse("http://localhost", HF_EINVAL);
    assert_message("unknown scheme 'http'");
    refuse("redi://localhost", HF_EINVAL);
    assert_message("unknown scheme 'redi'");
}

static void test_no_careless_url_shows_its_password(void **state) {
    /* Every way that we could think of to mistype a URL around its password. */
    static const char *const careless[] = {
        "hunter2",
        ":hunter2@h",
        "ann:hunter2@h",
        "ann:hunter2@redis://h",
        ":hunter2@redis://h",
        "redis:hunter2@h",
        "redis:/:hunter2@h",
        "redis//:hunter2@h",
        " redis://:hunter2@h",
        "http://:hunter2@h",
        "rediss+cluster://:hunter2@h/1",
        "redis://hunter2@h",
        "redis://ann%3Ahunter2@h",
        "redis://ann:hunter2",
        "redis://ann:hunter2/0",
        "redis://ann:hunter2:6379",
        "redis://ann:hunter2:h:6379/0",
        "redis://ann:hunter2@",
        "redis://ann:hunter2@:6379",
        "redis://ann:hunter2@/0",
        "redis://ann:hunter2@h:x",
        "redis://ann:hunter2@h:0",
        "redis://ann:hunter2@h/x",
        "redis://ann:hunter2@h/0/1",
        "redis://ann:hunter2@h?x=1",
        "redis://ann:hunter2@h?db=x",
        "redis://ann:hunter2@h#x",
        "redis://ann:hunter2@[::1",
        "redis://ann:hunter2@h%zz",
        "redis://ann:hunter2%@h",
        "redis://ann:x%zzhunter2@h",
        "redis://ann:hunter2%00@h",
        "redis://ann:hunter2@@",
        "redis://ann:x@hunter2@",
        "redis://ann:hunter2@h@",
        "redis://ann:x/hunter2@h",
        "redis://ann:hunter2/x@h",
        "redis://ann:x@y/hunter2@h",
        "redis://ann:x/y@hunter2/z@h",
        "redis://ann:x?hunter2@h",
        "redis://ann:hunter2?x@h",
        "redis://ann:x?hunter2",
        "redis://ann:x?hunter2=",
        "redis://ann:x?hunter2=x&y",
        "redis://:x?hunter2=x",
        "redis://ann:x?y=hunter2",
        "redis://ann:x?y&hunter2@h",
        "redis://ann:x?db=hunter2",
        "redis://ann:x#hunter2@h",
        "redis://ann:hunter2#x@h",
        "redis:///ann:hunter2@h",
        "redis:///:hunter2@h/0",
        "redis://h/0?password=hunter2",
        "redis://h/0?hunter2",
        "redis://h/hunter2",
        "redis://h:hunter2",
        "redis://h:6379:hunter2",
        "redis://[hunter2",
        "redis://[::1]hunter2",
        "unix://:hunter2@",
        "unix://:hunter2@run/s",
        "unix://:x/hunter2@/run/s",
        "unix://:hunter2/x@/run/s",
        "unix://ann:hunter2/run/s",
        "unix:///:hunter2@/run/s",
        "unix:///ann:hunter2@/run/s",
        "unix:///run/s?hunter2",
        "unix:///run/s?password=hunter2",
        "unix:///run/s#hunter2",
        "unix:////:hunter2@/run/s%zz",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(careless); i++) {
        hf_address address;
        hf_status status = hf_address_parse(careless[i], &address);
        assert_true(status != HF_OK);
        print_message("%s: %s\n", careless[i], hf_error_message());
        assert_string_not_equal(hf_error_message(), "");
        assert_null(strstr(hf_error_message(), "hunter2"));
    }
}

static void test_no_good_url_shows_its_password(void **state) {
    static const char *const urls[] = {
        "redis://:hunter2@h",      "redis://ann:hunter2@[::1]:1/2",
        "unix://ann:hunter2@/s",   "redis://ann:x@hunter2@h",
        "redis://ann:@hunter2:@h", "redis://:hunter2:@h",
        "rediss://:hunter2@h",     "redis+sentinel://ann:hunter2@h,i/mine",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        hf_address address;
        assert_status(hf_address_parse(urls[i], &address), HF_OK);
        assert_null(strstr(address.shown, "hunter2"));
        hf_address_free(&address);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls_mean_what_they_say),
        cmocka_unit_test(test_options_are_the_callers_then_the_urls_then_the_defaults),
        cmocka_unit_test(test_malformed_urls_are_refused_with_the_reason),
        cmocka_unit_test(test_a_scheme_may_be_valkeys_and_in_any_case),
        cmocka_unit_test(test_unknown_schemes_are_named),
        cmocka_unit_test(test_no_careless_url_shows_its_password),
        cmocka_unit_test(test_no_good_url_shows_its_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
