package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.HoldfastClient;
import io.holdfast.testing.TestRedis;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;

/** Two instances of the shop, with one database and a real Redis; the customers use HTTP. */
class TwoHostsTest {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final List<ConfigurableApplicationContext> HOSTS = new ArrayList<>();
    private static TestRedis redis;
    private static JdbcTemplate database;

    @BeforeAll
    static void open() {
        redis = TestRedis.start();
        for (int i = 0; i < 2; i++) {
            HOSTS.add(
                    SpringApplication.run(
                            ShopApplication.class,
                            "--server.port=0",
                            "--server.address=127.0.0.1",
                            "--holdfast.url=" + redis.url(),
                            "--spring.datasource.url=jdbc:h2:mem:shop;DB_CLOSE_DELAY=-1",
                            "--spring.jmx.enabled=false",
                            "--spring.main.banner-mode=off"));
        }
        database = HOSTS.get(0).getBean(JdbcTemplate.class);
    }

    @AfterAll
    static void close() {
        HOSTS.forEach(ConfigurableApplicationContext::close);
        redis.close();
    }

    /** Sends a request to one of the hosts. */
    private static CompletableFuture<HttpResponse<String>> post(int number, String path) {
        String port =
                HOSTS.get(number % 2).getEnvironment().getRequiredProperty("local.server.port");
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                        .POST(HttpRequest.BodyPublishers.noBody())
                        .build();
        return HTTP.sendAsync(request, HttpResponse.BodyHandlers.ofString());
    }

    @Test
    void tenInStockAndAHundredBuyers() {
        database.update("insert into stock values ('console', 10)");
        List<CompletableFuture<HttpResponse<String>>> answers =
                IntStream.range(0, 100)
                        .mapToObj(i -> post(i, "/items/console/buy?buyer=" + i))
                        .toList();
        Map<Integer, Integer> counts = new TreeMap<>();
        answers.forEach(each -> counts.merge(each.join().statusCode(), 1, Integer::sum));
        assertEquals(Map.of(200, 10, 410, 90), counts);
        assertEquals(
                0, database.queryForObject("select left_over from stock", Integer.class));
        assertEquals(
                10,
                database.queryForObject(
                        "select count(distinct fence) from sold where item = 'console'",
                        Integer.class));
    }

    @Test
    void anOrderIsRefundedOnce() {
        database.update("insert into orders values ('7', 'paid')");
        List<CompletableFuture<HttpResponse<String>>> clicks =
                IntStream.range(0, 20).mapToObj(i -> post(i, "/orders/7/refund")).toList();
        List<String> bodies = clicks.stream().map(each -> each.join().body()).toList();
        assertEquals(List.of("7"), Bank.PAID);
        assertEquals(1, bodies.stream().filter(each -> each.contains("\"refunded\"")).count());
        assertEquals(19, bodies.stream().filter(each -> each.contains("before")).count());
    }

    @Test
    void aCustomerIsToldWhenTheOrderIsBusyForTooLong() throws Exception {
        database.update("insert into orders values ('8', 'paid')");
        try (var hold = HOSTS.get(0).getBean(HoldfastClient.class).lock("order:8").acquire()) {
            HttpResponse<String> answer = post(1, "/orders/8/refund").join();
            assertEquals(409, answer.statusCode());
            assertEquals("order:8 is busy, try again", answer.body());
            assertTrue(hold.isValid());
        }
    }

    @Test
    void nothingThatTheStarterCanUseIsNeeded() {
        for (String absent :
                List.of(
                        "org.springframework.boot.actuate.health.HealthIndicator",
                        "org.springframework.integration.support.locks.LockRegistry",
                        "org.aspectj.weaver.Advice")) {
            assertThrows(ClassNotFoundException.class, () -> Class.forName(absent));
        }
    }
}
