package io.holdfast.spring;

import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.said;
import static io.holdfast.spring.Application.unique;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.Outcome;
import io.holdfast.testing.TestRedis;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Principal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.aopalliance.intercept.MethodInterceptor;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.orm.jpa.HibernateJpaAutoConfiguration;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.web.servlet.ServletRegistrationBean;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.scheduling.annotation.Async;
import org.springframework.web.bind.annotation.CrossOrigin;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.filter.ServerHttpObservationFilter;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.servlet.HandlerMapping;
import org.springframework.web.servlet.ModelAndView;

/** Handlers of requests with an Idempotency-Key, in a real web server. */
final class IdempotentTest {
    static final AtomicInteger CALLS = new AtomicInteger();
    static final String SHOP = "http://shop.example";
    static volatile CountDownLatch entered;
    static volatile CountDownLatch leave;

    record Charge(String order, int cents) {}

    @RestController
    static class Charges {
        @PostMapping("/charge")
        @Idempotent("charge")
        @CrossOrigin(SHOP)
        ResponseEntity<Charge> charge(@RequestBody Charge charge) {
            CALLS.incrementAndGet();
            return ResponseEntity.created(URI.create("/charges/7"))
                    .header("Set-Cookie", "secret=1")
                    .body(charge);
        }

        @PostMapping("/slow")
        @Idempotent(scope = "slow", ttl = "1h")
        String slow() throws InterruptedException {
            CALLS.incrementAndGet();
            entered.countDown();
            assertThat(leave.await(60, TimeUnit.SECONDS)).isTrue();
            return "slow";
        }

        @PostMapping("/optional")
        @Idempotent(required = false)
        int optional() {
            return CALLS.incrementAndGet();
        }

        @PostMapping("/moved")
        ModelAndView moved() {
            return new ModelAndView("forward:/optional");
        }

        @PostMapping("/viewed")
        ModelAndView viewed() {
            return new ModelAndView("forward:/page.jsp");
        }

        @PostMapping("/page.jsp") // which has a servlet of its own
        void neverCalled() {}

        @PostMapping("/including")
        void including(HttpServletRequest request, HttpServletResponse response)
                throws ServletException, IOException {
            request.getRequestDispatcher("/optional").include(request, response);
            response.getOutputStream().print(" in " + pattern(request));
        }

        @PostMapping("/form")
        @Idempotent("form")
        String form(@RequestParam String order) {
            CALLS.incrementAndGet();
            return "form of " + order;
        }

        @PostMapping("/fail")
        @Idempotent("fail")
        ResponseEntity<String> fail(@RequestParam String how) {
            CALLS.incrementAndGet();
            switch (how) {
                case "declined" ->
                        throw new ResponseStatusException(HttpStatus.PAYMENT_REQUIRED, "declined");
                case "thrown" -> throw new IllegalStateException("the vendor is silent");
                default -> {
                    return ResponseEntity.status(502).body("bad gateway");
                }
            }
        }

        @PostMapping("/hidden")
        @Idempotent("hidden")
        Object hidden() {
            CALLS.incrementAndGet();
            return new CompletableFuture<String>();
        }

        @PostMapping("/many")
        @Idempotent("many")
        String many(@RequestBody Charge charge, @RequestParam int times) {
            if (CALLS.incrementAndGet() > 0 && charge.cents() < 0) {
                throw new IllegalArgumentException("less than nothing");
            }
            return times + " of " + charge.cents();
        }

        @ExceptionHandler(IllegalArgumentException.class)
        ResponseEntity<String> refused(IllegalArgumentException e) {
            return ResponseEntity.badRequest().body(e.getMessage());
        }

        @PostMapping("/plain")
        int plain() {
            return CALLS.incrementAndGet();
        }
    }

    static Object pattern(HttpServletRequest request) {
        return request.getAttribute(HandlerMapping.BEST_MATCHING_PATTERN_ATTRIBUTE);
    }

    abstract static class Inherited {
        @PostMapping("/call")
        @Idempotent
        int call() {
            return CALLS.incrementAndGet();
        }
    }

    @RestController
    @RequestMapping("/first")
    static class First extends Inherited {}

    @RestController
    @RequestMapping("/second")
    static class Second extends Inherited {}

    @RestController
    static class Sealed {
        @PostMapping("/sealed")
        @Idempotent
        final String sealed() {
            return "";
        }
    }

    @RestController
    static class Later {
        @PostMapping("/later")
        @Idempotent
        ResponseEntity<CompletableFuture<String>> later() {
            return null;
        }
    }

    @RestController
    static class Elsewhere {
        @Async
        @PostMapping("/elsewhere")
        @Idempotent
        void later() {}
    }

    @Idempotent("one")
    @Retention(RetentionPolicy.RUNTIME)
    @interface One {}

    @Idempotent("other")
    @Retention(RetentionPolicy.RUNTIME)
    @interface Other {}

    @RestController
    static class Twice {
        @PostMapping("/twice")
        @One
        @Other
        String twice() {
            return "";
        }
    }

    /** As Spring's validation of parameters: its advice is added after ours. */
    @SuppressWarnings("serial") // as its super class: it is not serialized
    static class Validation extends AbstractBeanFactoryAwareAdvisingPostProcessor {
        Validation() {
            setProxyTargetClass(true);
            advisor =
                    new DefaultPointcutAdvisor(
                            new AnnotationMatchingPointcut(null, Idempotent.class, true),
                            (MethodInterceptor)
                                    call -> {
                                        for (Object each : call.getArguments()) {
                                            if (each instanceof Charge charge && charge.cents() == 0) {
                                                throw new ResponseStatusException(HttpStatus.BAD_REQUEST);
                                            }
                                        }
                                        return call.proceed();
                                    });
        }
    }

    /** The user is who the header says. */
    @Order(0)
    static class Users extends OncePerRequestFilter {
        @Override
        protected void doFilterInternal(
                HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                throws ServletException, IOException {
            String user = request.getHeader("User");
            chain.doFilter(
                    new HttpServletRequestWrapper(request) {
                        @Override
                        public Principal getUserPrincipal() {
                            return user == null ? null : () -> user;
                        }
                    },
                    response);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(exclude = HibernateJpaAutoConfiguration.class)
    @Import({First.class, Second.class, Validation.class})
    static class Web {
        @Bean
        Charges charges() {
            return new Charges();
        }

        @Bean
        Users users() {
            return new Users();
        }

        @Bean
        ServletRegistrationBean<HttpServlet> page() {
            return new ServletRegistrationBean<>(
                    new HttpServlet() {
                        @Override
                        protected void doPost(
                                HttpServletRequest request, HttpServletResponse response)
                                throws IOException {
                            String observed =
                                    ServerHttpObservationFilter.findObservationContext(request)
                                            .orElseThrow()
                                            .getPathPattern();
                            response.getWriter()
                                    .print("page of " + pattern(request) + ", " + observed);
                        }
                    },
                    "/page.jsp");
        }

        @Bean
        ObservationRegistry registry() {
            ObservationRegistry registry = ObservationRegistry.create();
            registry.observationConfig().observationHandler(new Observed());
            return registry;
        }
    }

    private static final List<Observation.Context> ENDED = new CopyOnWriteArrayList<>();

    private static final class Observed implements ObservationHandler<Observation.Context> {
        static volatile boolean fails;

        @Override
        public void onStart(Observation.Context context) {
            if (fails) {
                throw new IllegalStateException("a handler of observations");
            }
        }

        @Override
        public void onStop(Observation.Context context) {
            ENDED.add(context);
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return String.valueOf(context.getName()).startsWith("holdfast.");
        }
    }

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static ConfigurableApplicationContext web;

    private final String key = unique();

    private static ConfigurableApplicationContext start(String url, Class<?>... beans) {
        SpringApplication application = new SpringApplication(beans);
        application.setRegisterShutdownHook(false);
        return application.run(
                "--holdfast.url=" + url,
                "--holdfast.connect-timeout=500ms",
                "--spring.main.web-application-type=servlet",
                "--server.port=0",
                "--server.address=127.0.0.1",
                "--server.error.include-message=always",
                "--spring.main.banner-mode=off");
    }

    @BeforeAll
    static void start() {
        web = start(Application.url(), Web.class);
    }

    @AfterAll
    static void stop() {
        web.close();
    }

    @BeforeEach
    void count() {
        CALLS.set(0);
        entered = new CountDownLatch(1);
        leave = new CountDownLatch(1);
    }

    private static HttpResponse<String> post(
            ConfigurableApplicationContext at, String path, String body, String... headers)
            throws Exception {
        String port = at.getEnvironment().getProperty("local.server.port");
        HttpRequest.Builder request =
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                        .timeout(Duration.ofSeconds(60))
                        .POST(HttpRequest.BodyPublishers.ofString(body));
        for (int i = 0; i < headers.length; i += 2) {
            request.header(headers[i], headers[i + 1]);
        }
        return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    private static HttpResponse<String> charge(String body, String... headers) throws Exception {
        String[] all = new String[headers.length + 2];
        System.arraycopy(headers, 0, all, 2, headers.length);
        all[0] = "Content-Type";
        all[1] = "application/json";
        return post(web, "/charge", body, all);
    }

    private static HttpResponse<String> send(String path, String key) throws Exception {
        return post(web, path, "", "Idempotency-Key", key);
    }

    private static void assertProblem(HttpResponse<String> answer, int status, String why) {
        assertThat(answer.statusCode()).isEqualTo(status);
        assertThat(answer.headers().firstValue("Content-Type")).contains("application/problem+json");
        assertThat(answer.body()).contains("\"status\":" + status).contains(why);
    }

    private static Outcome outcome(String name) {
        return web.getBean(HoldfastClient.class).onceResult("idempotent:" + name).orElseThrow();
    }

    private String nameOf(String scope) {
        return scope + ":" + Holdfast.quote(key).replace(":", "%3A");
    }

    private static final String SEVEN = "{\"order\":\"sieben \u20ac\",\"cents\":1250}";

    @Test
    void theAnswerIsRepeated() throws Exception {
        HttpResponse<String> first = charge(SEVEN, "Idempotency-Key", key);
        HttpResponse<String> again = charge(SEVEN, "Idempotency-Key", "\"" + key + "\"");
        assertThat(CALLS).hasValue(1);
        for (HttpResponse<String> each : List.of(first, again)) {
            assertThat(each.statusCode()).isEqualTo(201);
            assertThat(each.body()).isEqualTo(SEVEN);
            assertThat(each.headers().firstValue("Content-Type")).contains("application/json");
            assertThat(each.headers().firstValue("Location")).contains("/charges/7");
        }
        assertThat(first.headers().firstValue("Idempotent-Replayed")).isEmpty();
        assertThat(first.headers().firstValue("Set-Cookie")).contains("secret=1");
        assertThat(again.headers().firstValue("Idempotent-Replayed")).contains("true");
        assertThat(again.headers().firstValue("Set-Cookie")).isEmpty();
        assertThat(outcome(nameOf("charge")).ttl())
                .isBetween(Duration.ofHours(23), Duration.ofHours(24));
        charge(SEVEN, "Idempotency-Key", key + "x");
        assertThat(CALLS).hasValue(2);
    }

    @Test
    void theCallIsObserved() throws Exception {
        charge(SEVEN, "Idempotency-Key", key);
        charge(SEVEN, "Idempotency-Key", key);
        String name = "idempotent:" + nameOf("charge");
        assertThat(ENDED)
                .filteredOn(each -> each.getHighCardinalityKeyValue("holdfast.lock").getValue().equals(name))
                .singleElement()
                .satisfies(
                        each -> {
                            assertThat(each.getName()).isEqualTo("holdfast.lock.hold");
                            assertThat(each.getHighCardinalityKeyValue("holdfast.fence").getValue())
                                    .isEqualTo(Long.toString(outcome(nameOf("charge")).fence()));
                        });
    }

    @Test
    void anObservationThatFailsBeforeTheCallLeavesNothing() throws Exception {
        Observed.fails = true;
        try {
            assertThat(charge(SEVEN, "Idempotency-Key", key).statusCode()).isEqualTo(500);
        } finally {
            Observed.fails = false;
        }
        assertThat(CALLS).hasValue(0);
        assertThat(charge(SEVEN, "Idempotency-Key", key).statusCode()).isEqualTo(201);
    }

    @Test
    void aKeyBelongsToItsUser() throws Exception {
        for (String user : new String[] {"a", "b", "a"}) {
            assertThat(charge(SEVEN, "Idempotency-Key", key, "User", user).statusCode())
                    .isEqualTo(201);
        }
        assertThat(CALLS).hasValue(2);
    }

    @Test
    void aKeyBelongsToTheControllerThatInheritsTheHandler() throws Exception {
        for (int i = 0; i < 2; i++) {
            assertThat(send("/first/call", key).body()).isEqualTo("1");
            assertThat(send("/second/call", key).body()).isEqualTo("2");
        }
        for (Class<?> each : List.of(First.class, Second.class)) {
            assertThat(outcome(nameOf(each.getName() + ".call")).state())
                    .isEqualTo(Outcome.State.DONE);
        }
    }

    @Test
    void aForwardedRequestIsCarriedOutOnce() throws Exception {
        assertThat(send("/moved", key).body()).isEqualTo("1");
        HttpResponse<String> again = send("/moved", key);
        assertThat(again.body()).isEqualTo("1");
        assertThat(again.headers().firstValue("Idempotent-Replayed")).contains("true");
        assertThat(send("/moved", key + "x").body()).isEqualTo("2");
    }

    /** Metrics are named by these attributes. */
    @Test
    void theLookForAHandlerLeavesTheRequestAsItWas() throws Exception {
        assertThat(send("/viewed", key).body()).isEqualTo("page of /viewed, /viewed");
        assertThat(send("/including", key).body()).isEqualTo("1 in /including");
    }

    @Test
    void aPageOfAnotherOriginMayReadEachAnswer() throws Exception {
        String[] mine = {"Origin", SHOP, "Idempotency-Key", key};
        List<HttpResponse<String>> answers =
                List.of(charge(SEVEN, mine), charge(SEVEN, mine), charge(SEVEN, "Origin", SHOP));
        assertThat(answers).extracting(HttpResponse::statusCode).containsExactly(201, 201, 400);
        for (HttpResponse<String> each : answers) {
            assertThat(each.headers().allValues("Access-Control-Allow-Origin"))
                    .containsExactly(SHOP);
        }
        HttpResponse<String> foreign =
                charge(SEVEN, "Origin", "http://other.example", "Idempotency-Key", key);
        assertThat(foreign.statusCode()).isEqualTo(403);
        assertThat(foreign.body()).doesNotContain("1250");
    }

    /** The keys of Python's frameworks, too. */
    @Test
    void aKeyIsWhatTheTableSays() throws Exception {
        Path table = Path.of("..", "..", "tests", "interop", "idempotency-keys.tsv");
        List<String> rows =
                Files.readAllLines(table).stream().filter(row -> !row.startsWith("#")).toList();
        assertThat(rows).hasSizeGreaterThan(20);
        for (String row : rows) {
            String[] parts = row.split("\t");
            assertThat(IdempotentFilter.key(List.of(parts[0])))
                    .as(row)
                    .isEqualTo(parts.length > 1 ? parts[1] : null);
        }
        assertThat(IdempotentFilter.key(List.of("a", "b"))).isNull();
    }

    @Test
    void aMissingOrMalformedKeyIsRefused() throws Exception {
        assertProblem(charge(SEVEN), 400, "needs the header Idempotency-Key");
        assertProblem(
                charge(SEVEN, "Idempotency-Key", key, "Idempotency-Key", "b"), 400, "there once");
        assertProblem(charge(SEVEN, "Idempotency-Key", "x".repeat(256)), 400, "1 to 255");
        assertProblem(charge(SEVEN, "Idempotency-Key", "\"x"), 400, "1 to 255");
        assertThat(CALLS).hasValue(0);
        assertThat(post(web, "/optional", "").body()).isEqualTo("1");
        assertThat(post(web, "/optional", "").body()).isEqualTo("2");
        assertThat(send("/optional", key).body()).isEqualTo("3");
        assertThat(send("/optional", key).body()).isEqualTo("3");
        assertThat(send("/plain", key).body()).isEqualTo("4");
        assertThat(send("/plain", key).body()).isEqualTo("5");
    }

    @Test
    void aSecondRequestMeanwhileIsRefused() throws Exception {
        var first = elsewhere(() -> send("/slow", key));
        try {
            assertThat(entered.await(20, TimeUnit.SECONDS)).isTrue();
            HttpResponse<String> second = send("/slow", key);
            assertProblem(second, 409, "in progress");
            assertThat(second.headers().firstValue("Retry-After")).contains("1");
        } finally {
            leave.countDown();
        }
        assertThat(join(first).body()).isEqualTo("slow");
        assertThat(send("/slow", key).body()).isEqualTo("slow");
        assertThat(CALLS).hasValue(1);
        assertThat(outcome(nameOf("slow")).ttl()).isLessThanOrEqualTo(Duration.ofHours(1));
    }

    @Test
    void anotherRequestWithTheKeyIsRefused() throws Exception {
        charge(SEVEN, "Idempotency-Key", key);
        assertProblem(
                charge(SEVEN.replace("1250", "1"), "Idempotency-Key", key), 422, "another method");
        assertProblem(
                post(
                        web,
                        "/charge?a=b",
                        SEVEN,
                        "Content-Type",
                        "application/json",
                        "Idempotency-Key",
                        key),
                422,
                "another method");
        assertThat(CALLS).hasValue(1);
    }

    @Test
    void formsReachTheHandlerAndAreCompared() throws Exception {
        String[] headers = {
            "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", key
        };
        assertThat(post(web, "/form", "order=7", headers).body()).isEqualTo("form of 7");
        assertThat(post(web, "/form", "order=7", headers).body()).isEqualTo("form of 7");
        assertProblem(post(web, "/form", "order=8", headers), 422, "another method");
        assertThat(CALLS).hasValue(1);
    }

    @Test
    void bodiesThatCannotBeComparedAreRefused() throws Exception {
        assertProblem(charge(" ".repeat((1 << 20) + 1), "Idempotency-Key", key), 413, "1 MiB");
        assertProblem(
                post(
                        web,
                        "/form",
                        "--x--",
                        "Content-Type",
                        "multipart/form-data; boundary=x",
                        "Idempotency-Key",
                        key),
                415,
                "multipart");
        assertThat(CALLS).hasValue(0);
    }

    @Test
    void anErrorOfTheClientIsRepeated() throws Exception {
        for (int i = 0; i < 2; i++) {
            HttpResponse<String> answer = send("/fail?how=declined", key);
            assertThat(answer.statusCode()).isEqualTo(402);
            assertThat(answer.body()).contains("declined");
        }
        assertThat(CALLS).hasValue(1);
    }

    private HttpResponse<String> many(String times, String body) throws Exception {
        String[] headers = {"Content-Type", "application/json", "Idempotency-Key", key};
        return post(web, "/many?times=" + times, body, headers);
    }

    @Test
    void aRequestThatItsHandlerNeverSawLeavesNothing() throws Exception {
        assertThat(many("2", "no JSON").statusCode()).isEqualTo(400);
        assertThat(many("x", SEVEN).statusCode()).isEqualTo(400);
        assertThat(
                        post(web, "/many?times=2", SEVEN, "Refuse", "it", "Idempotency-Key", key)
                                .statusCode())
                .isEqualTo(415);
        assertThat(many("2", SEVEN.replace("1250", "0")).statusCode()).isEqualTo(400);
        assertThat(web.getBean(HoldfastClient.class).onceResult("idempotent:" + nameOf("many")))
                .isEmpty();
        assertThat(CALLS).hasValue(0);
        assertThat(many("2", SEVEN).body()).isEqualTo("2 of 1250");
        assertProblem(many("2", "no JSON"), 422, "another method");
        assertThat(CALLS).hasValue(1);
    }

    /** The same answer, but of the handler. */
    @Test
    void aRequestThatItsHandlerRefusedIsKept() throws Exception {
        for (int i = 0; i < 2; i++) {
            HttpResponse<String> answer = many("2", SEVEN.replace("1250", "-1"));
            assertThat(answer.statusCode()).isEqualTo(400);
            assertThat(answer.body()).isEqualTo("less than nothing");
        }
        assertThat(CALLS).hasValue(1);
    }

    @Test
    void itIsRefusedInWebFlux() {
        new ReactiveWebApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(HoldfastAutoConfiguration.class))
                .withPropertyValues("holdfast.url=" + Application.url())
                .withBean(Charges.class)
                .run(
                        context ->
                                assertThat(said(context.getStartupFailure()))
                                        .contains("@Idempotent on ")
                                        .contains("works in Spring MVC only")
                                        .contains("Mono.fromFuture("));
    }

    @Test
    void aHandlerWhoseCallsCannotBeNotedIsRefusedAtTheStart() {
        assertThatThrownBy(() -> start(Application.url(), Web.class, Sealed.class).close())
                .satisfies(
                        e ->
                                assertThat(said(e))
                                        .contains("Sealed.sealed()")
                                        .contains("it is final"));
    }

    @Test
    void anErrorOfTheServerIsUnknownUntilItIsSettled() throws Exception {
        for (String how : new String[] {"answered", "thrown"}) {
            CALLS.set(0);
            String path = "/fail?how=" + how;
            String mine = key + how;
            String name = nameOf("fail") + how;
            HttpResponse<String> first = send(path, mine);
            assertThat(first.statusCode()).isEqualTo(how.equals("thrown") ? 500 : 502);
            HttpResponse<String> second = send(path, mine);
            assertProblem(second, 409, "It is unknown");
            assertThat(second.headers().firstValue("Retry-After")).isEmpty();
            assertThat(CALLS).hasValue(1);
            assertThat(outcome(name).state()).isEqualTo(Outcome.State.UNKNOWN);

            outcome(name).retry();
            send(path, mine);
            assertThat(CALLS).hasValue(2);
            String settled = "200\nContent-Type: text/plain\n\npaid";
            outcome(name).resolve(settled.getBytes(StandardCharsets.UTF_8), Duration.ofHours(1));
            HttpResponse<String> last = send(path, mine);
            assertThat(last.statusCode()).isEqualTo(200);
            assertThat(last.headers().firstValue("Content-Type").orElseThrow())
                    .startsWith("text/plain");
            assertThat(last.body()).isEqualTo("paid");
            assertThat(CALLS).hasValue(2);
        }
    }

    /** Another thread may call the controller already, and calls by a chain without it last. */
    @Test
    void theAdviceThatNotesCallsIsAlwaysThere() throws Exception {
        List<Integer> counts = new ArrayList<>();
        ProxyFactory charges =
                new ProxyFactory(new Charges()) {
                    @Override
                    protected void adviceChanged() {
                        super.adviceChanged();
                        counts.add(getAdvisorCount());
                    }
                };
        IdempotentBeans handlers = new IdempotentBeans();
        handlers.postProcessAfterInitialization(charges, "charges");
        handlers.check(charges, Charges.class.getDeclaredMethod("optional"));
        assertThat(counts).doesNotContain(0).last().isEqualTo(1);
    }

    @Test
    void anAnswerThatComesLaterIsAnError() throws Exception {
        assertThat(send("/hidden", key).statusCode()).isEqualTo(500);
        assertProblem(send("/hidden", key), 409, "It is unknown");
        assertThat(CALLS).hasValue(1);
    }

    @Test
    void withoutRedisNothingIsCarriedOut() throws Exception {
        String url;
        try (TestRedis gone = TestRedis.start()) {
            url = gone.url();
        }
        try (var application = start(url, Web.class)) {
            assertProblem(
                    post(application, "/slow", "", "Idempotency-Key", key), 503, "not carried out");
        }
        assertThat(CALLS).hasValue(0);
    }

    @Test
    void anAnswerThatComesLaterIsRefusedAtTheStart() {
        for (Class<?> each : List.of(Later.class, Elsewhere.class)) {
            assertThatThrownBy(() -> start(Application.url(), Web.class, each).close())
                    .satisfies(
                            e ->
                                    assertThat(said(e))
                                            .contains("@Idempotent on")
                                            .contains(each.getSimpleName() + ".later()")
                                            .contains("before it has its answer"));
        }
    }

    @Test
    void twoAnnotationsAreRefusedAtTheStart() {
        assertThatThrownBy(() -> start(Application.url(), Web.class, Twice.class).close())
                .satisfies(
                        e ->
                                assertThat(said(e))
                                        .contains("Twice.twice()")
                                        .contains("@Idempotent twice"));
    }
}
