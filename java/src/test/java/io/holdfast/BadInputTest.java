package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;

/** Each wrong input has its own clear error. */
final class BadInputTest extends RedisTest {
    private static final ClientOptions HASTY =
            ClientOptions.defaults()
                    .connectTimeout(Duration.ofMillis(300))
                    .commandTimeout(Duration.ofMillis(300))
                    .lazy(true);

    private static final ClientOptions PATIENT =
            ClientOptions.defaults().connectTimeout(Duration.ofSeconds(20));

    private static <T extends Throwable> T refused(Class<T> type, String says, String url) {
        return refused(type, says, url, PATIENT);
    }

    private static <T extends Throwable> T refused(
            Class<T> type, String says, String url, ClientOptions options) {
        T error = assertThrows(type, () -> Holdfast.connect(url, options).close());
        assertTrue(error.getMessage().contains(says), error.getMessage());
        return error;
    }

    // -------------------------------------------------------------------- URL

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "localhost",
                "redis:",
                "redis://",
                "redis://host:",
                "redis://host:0",
                "redis://host:65536",
                "redis://host:port",
                "redis://host/database",
                "redis://host/-1",
                "redis://[::1",
                "redis://host/%zz",
                "redis://host\0evil",
                "unix://",
                "unix://relative/path",
            })
    void aMalformedUrlIsRefused(String url) {
        assertThrows(IllegalArgumentException.class, () -> Holdfast.connect(url).close());
    }

    @ParameterizedTest
    @ValueSource(strings = {"http", "cluster", "redis-cluster"})
    void anUnknownSchemeIsNamed(String scheme) {
        refused(IllegalArgumentException.class, scheme, scheme + "://localhost");
    }

    @Test
    void nothingIsNull() {
        assertThrows(NullPointerException.class, () -> Holdfast.connect(null));
        assertThrows(NullPointerException.class, () -> Holdfast.connect(url(), null));
        assertThrows(NullPointerException.class, () -> client.lock((String) null));
        assertThrows(NullPointerException.class, () -> client.lock((byte[]) null));
        assertThrows(NullPointerException.class, () -> client.lock("name", null));
        assertEquals(
                "timeout",
                assertThrows(NullPointerException.class, () -> lock.acquire(null)).getMessage());
        assertEquals(
                "the result is null",
                assertThrows(NullPointerException.class, () -> Codec.UTF_8.encode(null)).getMessage());
        assertThrows(NullPointerException.class, () -> lock.tryLock(1, null));
        LockOptions options = LockOptions.defaults();
        assertThrows(NullPointerException.class, () -> options.lease(null));
        assertThrows(NullPointerException.class, () -> options.owner((String) null));
        assertThrows(NullPointerException.class, () -> options.owner((byte[]) null));
    }

    // ----------------------------------------------------------------- Server

    @Test
    void anUnreachableServerIsToldOf() throws IOException {
        int port;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = socket.getLocalPort();
        }
        String url = "redis://127.0.0.1:" + port;
        ClientOptions hasty = HASTY.lazy(false);
        refused(ConnectionFailedException.class, "127.0.0.1:" + port, url, hasty);
        refused(ConnectionFailedException.class, "/nowhere", "unix:///nowhere/redis.sock", hasty);
    }

    @Test
    void aServerThatNeverAnswersIsGivenUpInTime() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            String url = "redis://127.0.0.1:" + silent.getLocalPort();
            long start = System.nanoTime();
            refused(ConnectionFailedException.class, "in time", url, HASTY.lazy(false));
            assertInTime(start);
        }
    }

    @Test
    void aWrongPasswordIsRefusedAndNeverShown() throws Exception {
        try (RedisServer server = RedisServer.start();
                Jedis admin = server.look()) {
            admin.configSet("requirepass", "s\u00e9same \ud83d\ude00");
            URI uri = URI.create(server.tcpUrl);
            String at = "@127.0.0.1:" + uri.getPort();
            Holdfast.connect("redis://:s%C3%A9same%20%F0%9F%98%80" + at).close();
            Holdfast.connect("redis://:s\u00e9same%20\ud83d\ude00" + at).close();

            AuthenticationException wrong =
                    assertThrows(
                            AuthenticationException.class,
                            () -> Holdfast.connect("redis://:open-sesame" + at));
            assertFalse(wrong.getMessage().contains("open-sesame"), wrong.getMessage());
            assertThrows(
                    AuthenticationException.class,
                    () -> Holdfast.connect("redis://stranger:open-sesame" + at));
            assertThrows(AuthenticationException.class, () -> Holdfast.connect(server.tcpUrl));
        }
    }

    @Test
    void aDatabaseThatIsNotThereIsToldOf() {
        refused(ServerException.class, "SELECT", url() + "/1000000");
    }

    @Test
    void aUnixSocketIsAUrlToo() throws Exception {
        try (HoldfastClient other = Holdfast.connect(SERVER.unixUrl);
                Hold hold = other.lock(name).acquire()) {
            assertEquals(hold.fence(), lock.inspect().fence());
        }
    }

    @Test
    void theDatabaseIsTheOneInTheUrl() {
        try (HoldfastClient other = Holdfast.connect(url() + "/3")) {
            HoldfastLock there = other.lock(name);
            there.lock();
            assertFalse(redis.exists(name));
            redis.select(3);
            assertTrue(redis.exists(name));
            there.unlock();
        }
    }

    @ParameterizedTest
    @CsvSource({"3.2.12", "5.0.14", "6.0.20", "6.1.0"})
    void anOldRedisIsToldWhichOneIsNeeded(String version) throws IOException {
        boolean hasHello = version.startsWith("6");
        Function<String, String> answers =
                request -> {
                    String info = "redis_version:" + version + "\r\n";
                    if (request.contains("INFO")) {
                        return "$" + info.length() + "\r\n" + info + "\r\n";
                    }
                    return hasHello
                            ? FakeServer.REDIS_7.replace(
                                    "5\r\n7.0.0", version.length() + "\r\n" + version)
                            : "-ERR unknown command\r\n";
                };
        try (FakeServer server = new FakeServer(answers)) {
            refused(UnsupportedException.class, "6.2", server.url());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"HTTP/1.1 400 Bad Request\r\n", "*1000000000\r\n", ":1\r\n", "$-7\r\n"})
    void aServerThatAnswersGarbageIsToldOf(String garbage) throws IOException {
        try (FakeServer server = new FakeServer(request -> garbage)) {
            refused(ProtocolException.class, "127.0.0.1", server.url());
        }
    }

    @Test
    void aServerThatClosesInTheMiddleOfItsAnswerIsToldOf() throws Exception {
        try (FakeServer server = new FakeServer(request -> "*2\r\n$7\r\nver")) {
            Executable connect = () -> Holdfast.connect(server.url(), HASTY.lazy(false)).close();
            until( // again, if the machine stood still for that time
                    () ->
                            assertThrows(ConnectionFailedException.class, connect)
                                    .getMessage()
                                    .contains("closed"));
        }
    }

    /** That the call ends with an unknown outcome, unless it could send nothing in its time. */
    private static boolean isUnknown(Executable call) {
        HoldfastException thrown = assertThrows(HoldfastException.class, call);
        if (thrown instanceof ConnectionFailedException) {
            return false;
        }
        assertEquals(LockUnknownException.class, thrown.getClass());
        return true;
    }

    @Test
    void anAnswerThatIsLostIsUnknownAndNoIllegalMonitorState() throws Exception {
        Function<String, String> answers =
                request -> request.contains("HELLO") ? FakeServer.REDIS_7 : "*5\r\n:1";
        try (FakeServer server = new FakeServer(answers);
                HoldfastClient doubtful = Holdfast.connect(server.url(), HASTY)) {
            HoldfastLock there = doubtful.lock(name);
            until(() -> isUnknown(() -> there.acquire(SECOND)));
            until(() -> isUnknown(there::tryLock));
        }
    }

    @Test
    void anAnswerThatNeverComesIsUnknownInTime() throws Exception {
        Function<String, String> answers =
                request -> request.contains("HELLO") ? FakeServer.REDIS_7 : "";
        try (FakeServer server = new FakeServer(answers);
                HoldfastClient doubtful = Holdfast.connect(server.url(), HASTY)) {
            long start = System.nanoTime();
            until(() -> isUnknown(doubtful.lock(name)::tryLock));
            assertInTime(start);
        }
    }

    @Test
    void aServerThatRefusesIsToldOf() {
        redis.aclSetUser("reader", "reset", "on", ">x", "~*", "+@read", "+@connection");
        String url = url().replace("redis://", "redis://reader:x@");
        try (HoldfastClient reader = Holdfast.connect(url)) {
            assertThrows(ServerException.class, () -> reader.lock(name).tryLock());
        } finally {
            redis.aclDelUser("reader");
        }
        assertFalse(redis.exists(name));
    }

    // ------------------------------------------------------------------ Names

    @Test
    void aNameHasOneByteTo4096() {
        assertThrows(IllegalArgumentException.class, () -> client.lock(""));
        assertThrows(IllegalArgumentException.class, () -> client.lock(new byte[0]));
        assertThrows(IllegalArgumentException.class, () -> client.lock(new byte[4097]));
        assertThrows(IllegalArgumentException.class, () -> client.lock("\u00e4".repeat(2049)));
        HoldfastLock longest = client.lock(name + "x".repeat(4096 - name.length()));
        assertTrue(longest.tryLock());
        longest.unlock();
    }

    @ParameterizedTest
    @ValueSource(strings = {"{a}a:hf1:q", "a:hf1:f", "a:hf23:d"})
    void theKeysOfALockAreNoNames(String reserved) {
        assertThrows(IllegalArgumentException.class, () -> client.lock(reserved));
    }

    @Test
    void whatAUserTypedIsAPartOfANameOnceItIsQuoted() {
        for (String plain : List.of("", "7", "a b", "user:7", "M\u00fcller", "shf1:q", "hf", "half:1")) {
            assertEquals(plain, Holdfast.quote(plain));
        }
        for (String end : List.of("\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029")) {
            assertEquals("hf1" + end, Holdfast.quote("hf1" + end)); // no such name is reserved
        }
        assertEquals("a%7Db", Holdfast.quote("a}b")); // as in Python
        List<String> strange =
                List.of("}", "%7D", "%257D", "{", "hf1:q", "%68f1:q", "x:hf1:q", "hf1", "%");
        assertEquals(
                strange.size(), strange.stream().map(Holdfast::quote).distinct().count());
        for (String each : strange) {
            assertEquals("x:" + Holdfast.quote(each), client.lock("x:" + Holdfast.quote(each)).getName());
        }
    }

    @Test
    void halfASurrogatePairIsNoName() {
        assertThrows(IllegalArgumentException.class, () -> client.lock("a\ud83d"));
        assertThrows(
                IllegalArgumentException.class, () -> LockOptions.defaults().owner("a\ude00"));
    }

    @Test
    void anOwnerHasOneByteTo4096() {
        for (int length : new int[] {0, 4097}) {
            LockOptions options = LockOptions.defaults().owner(new byte[length]);
            assertThrows(IllegalArgumentException.class, () -> client.lock(name, options));
        }
        HoldfastLock owned = client.lock(name, LockOptions.defaults().owner(new byte[4096]));
        assertTrue(owned.tryLock());
        assertEquals(4096, owned.inspect().owner().length);
        owned.unlock();
    }

    // ------------------------------------------------------------------ Times

    @ParameterizedTest
    @ValueSource(strings = {"PT0S", "PT-1S", "PT-0.001S", "PT0.000000001S", "PT0.009S", "P3651D"})
    void aLeaseHasTenMillisecondsToTenYears(String lease) {
        assertThrows(
                IllegalArgumentException.class,
                () -> client.lock(name, LockOptions.defaults().lease(Duration.parse(lease))));
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT0.01S", "PT0.0099S", "P3650D"})
    void theBoundsOfALeaseAreAllowed(String lease) {
        client.lock(name, LockOptions.defaults().lease(Duration.parse(lease)));
    }

    @Test
    void aTimeoutIsNotNegative() {
        assertThrows(IllegalArgumentException.class, () -> lock.acquire(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> lock.acquire(Duration.ofNanos(-1)));
        assertThrows(IllegalArgumentException.class, () -> lock.acquire(Duration.ofDays(-1)));
        assertFalse(redis.exists(name));
    }

    @Test
    void anExtensionIsPositive() throws Exception {
        try (Hold hold = lock.acquire()) {
            for (Duration bad : new Duration[] {Duration.ZERO, SECOND.negated(), Hold.FOREVER}) {
                assertThrows(IllegalArgumentException.class, () -> hold.extend(bad));
            }
            assertThrows(
                    IllegalArgumentException.class, () -> hold.extend(Duration.ofMillis(9)));
            hold.check();
        }
    }

    @Test
    void clientOptionsArePositive() {
        ClientOptions options = ClientOptions.defaults();
        assertThrows(
                IllegalArgumentException.class, () -> options.connectTimeout(Duration.ZERO));
        assertThrows(
                IllegalArgumentException.class, () -> options.commandTimeout(SECOND.negated()));
    }

    @Test
    void whatIsNullIsNamed() {
        for (var each :
                Map.<String, Executable>of(
                                "name", () -> client.lock((String) null),
                                "owner", () -> LockOptions.defaults().owner((String) null),
                                "options", () -> client.lock(name, null))
                        .entrySet()) {
            assertEquals(
                    each.getKey(),
                    assertThrows(NullPointerException.class, each.getValue()).getMessage());
        }
    }

    @Test
    void aTimeThatFitsNoNumberIsRefused() {
        Duration longest = Duration.ofSeconds(Long.MAX_VALUE, 999_999_999);
        ClientOptions defaults = ClientOptions.defaults();
        for (ClientOptions options :
                List.of(
                        defaults.connectTimeout(longest),
                        defaults.commandTimeout(longest),
                        defaults.keepAlive(longest),
                        defaults.fenceLife(longest),
                        defaults.alarm(1, longest))) {
            assertThrows(
                    IllegalArgumentException.class, () -> Holdfast.connect(url(), options).close());
        }
        LockOptions plain = LockOptions.defaults();
        for (LockOptions options :
                List.of(
                        plain.lease(Hold.FOREVER),
                        plain.lease(longest),
                        plain.maxHold(longest),
                        plain.replicas(1, longest),
                        plain.alarm(1, longest))) {
            assertThrows(IllegalArgumentException.class, () -> client.lock(name, options));
        }
    }
}
