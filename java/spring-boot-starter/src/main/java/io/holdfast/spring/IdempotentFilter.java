package io.holdfast.spring;

import io.holdfast.ClosedException;
import io.holdfast.Codec;
import io.holdfast.FingerprintMismatchException;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastException;
import io.holdfast.HoldfastLock;
import io.holdfast.KeptErrorException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockTimeoutException;
import io.holdfast.OnceOptions;
import io.holdfast.OutcomeUnknownException;
import io.holdfast.Turn;
import io.holdfast.micrometer.HoldfastObservations;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.Principal;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodClassKey;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationAwareOrderComparator;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.MediaType;
import org.springframework.http.ProblemDetail;
import org.springframework.http.converter.HttpMessageConverter;
import org.springframework.http.server.ServletServerHttpResponse;
import org.springframework.util.function.SingletonSupplier;
import org.springframework.web.cors.CorsConfigurationSource;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.filter.ServerHttpObservationFilter;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.servlet.HandlerExecutionChain;
import org.springframework.web.servlet.HandlerInterceptor;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;
import org.springframework.web.util.ServletRequestPathUtils;

/** Carries out {@link Idempotent}. It runs after all filters with an order, such as Security's. */
final class IdempotentFilter extends OncePerRequestFilter
        implements Ordered, SmartInitializingSingleton {
    private static final Log LOG = LogFactory.getLog(IdempotentFilter.class);
    private static final int BODY_MAX = 1 << 20;
    // An sf-string, as the draft has it, or bare, as Stripe has it. No comma: servers join two
    // headers with one.
    private static final Pattern KEY =
            Pattern.compile(
                    "\"((?:[ !#-\\[\\]-~]|\\\\[\"\\\\]){1,255})\"|([!#-+\\--\\[\\]-~]{1,255})");

    private final ConfigurableListableBeanFactory beans;
    private final IdempotentBeans handlers;
    private final SingletonSupplier<HoldfastObservations> observations;
    private volatile List<RequestMappingHandlerMapping> mappings = List.of();
    /** Controllers that inherit a handler have a rule each. */
    private volatile Map<MethodClassKey, Rule> rules = Map.of();

    /** The options of a handler. */
    private record Rule(String scope, boolean required, Duration ttl) {}

    IdempotentFilter(ConfigurableListableBeanFactory beans, IdempotentBeans handlers) {
        this.beans = beans;
        this.handlers = handlers;
        this.observations = SingletonSupplier.of(() -> Advices.observations(beans));
    }

    @Override
    public int getOrder() {
        return LOWEST_PRECEDENCE;
    }

    @Override
    public void afterSingletonsInstantiated() {
        Map<MethodClassKey, Rule> found = new HashMap<>();
        mappings =
                beans.getBeansOfType(RequestMappingHandlerMapping.class, true, false).values().stream()
                        .sorted(AnnotationAwareOrderComparator.INSTANCE)
                        .toList();
        for (RequestMappingHandlerMapping each : mappings) {
            for (HandlerMethod handler : each.getHandlerMethods().values()) {
                Idempotent said = said(handler);
                if (said != null) {
                    found.put(keyOf(handler), rule(handler, said));
                }
            }
        }
        rules = Map.copyOf(found);
    }

    private static MethodClassKey keyOf(HandlerMethod handler) {
        return new MethodClassKey(handler.getMethod(), handler.getBeanType());
    }

    private static Idempotent said(HandlerMethod handler) {
        return AnnotatedElementUtils.findMergedAnnotation(handler.getMethod(), Idempotent.class);
    }

    private Rule rule(HandlerMethod handler, Idempotent said) {
        Target target =
                new Target(handler.getBeanType(), handler.getMethod(), handler.getMethod(), beans);
        try {
            target.refuseTwo(Idempotent.class);
            if (Returns.tooSoon(target)) {
                throw new IllegalArgumentException(
                        "it returns before it has its answer: it is @Async, or its type is "
                                + Returns.returned(target));
            }
            Object bean = handler.getBean();
            if (bean instanceof String name && beans.isSingleton(name)) {
                bean = beans.getBean(name);
            }
            handlers.check(bean, handler.getMethod());
            String scope = target.text(said.scope());
            Duration ttl = target.time("the ttl", said.ttl());
            if (ttl == null) {
                throw new IllegalArgumentException("the ttl is missing");
            }
            OnceOptions.of(ttl, Codec.BYTES);
            return new Rule(scope.isEmpty() ? target.defaultName() : scope, said.required(), ttl);
        } catch (IllegalArgumentException e) {
            throw new IllegalStateException("@Idempotent on " + target + ": " + e.getMessage(), e);
        }
    }

    /**
     * Lets a request without a rule pass as if not filtered: it may be forwarded to a handler that has one.
     * An included fragment cannot refuse: the status is that of the page around it.
     */
    @Override
    protected boolean shouldNotFilter(HttpServletRequest request) {
        return rules.isEmpty()
                || request.getDispatcherType() == DispatcherType.INCLUDE
                || rule(handler(new Glance(request))) == null;
    }

    @Override
    protected void doFilterInternal(
            HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        HandlerExecutionChain handler = handler(request);
        Rule rule = rule(handler);
        List<String> given =
                rule == null ? List.of() : Collections.list(request.getHeaders("Idempotency-Key"));
        if (rule == null || given.isEmpty() && !rule.required) {
            chain.doFilter(request, response);
            return;
        }
        if (!admits(handler, request, response)) {
            return;
        }
        String text = key(given);
        if (text == null) {
            refuse(
                    response,
                    400,
                    given.isEmpty()
                            ? "This request needs the header Idempotency-Key."
                            : "The header Idempotency-Key must be there once, with 1 to 255 printable"
                                    + " characters of ASCII.");
            return;
        }
        String contentType = String.valueOf(request.getContentType());
        if (contentType.regionMatches(true, 0, "multipart/", 0, 10)) {
            refuse(
                    response,
                    415,
                    "A request with an Idempotency-Key cannot have a multipart body here.");
            return;
        }
        ByteArrayOutputStream print = new ByteArrayOutputStream();
        String query = request.getQueryString();
        print.writeBytes(
                (request.getMethod() + " " + request.getRequestURI() + (query == null ? "" : "?" + query) + "\n")
                        .getBytes(StandardCharsets.UTF_8));
        byte[] body = null;
        if (contentType.regionMatches(
                true, 0, MediaType.APPLICATION_FORM_URLENCODED_VALUE, 0, 33)) {
            new TreeMap<>(request.getParameterMap())
                    .forEach(
                            (name, values) -> {
                                for (String value : values) {
                                    print.writeBytes(pair(name, value));
                                }
                            });
        } else {
            body = request.getInputStream().readNBytes(BODY_MAX + 1);
            if (body.length > BODY_MAX) {
                refuse(
                        response,
                        413,
                        "A request with an Idempotency-Key can have a body of at most 1 MiB here.");
                return;
            }
            print.writeBytes(body);
        }
        HoldfastLock lock =
                beans.getBean(HoldfastClient.class).lock(name(rule, request, text));
        Turn turn = begin(lock, rule, print.toByteArray(), response);
        if (turn == null) {
            return;
        }
        if (turn.result().isPresent()) {
            response.setHeader("Idempotent-Replayed", "true");
            IdempotentAnswer.of(turn.result().get()).send(response);
            return;
        }
        observed(lock, turn, rule, new Inner(request, body), response, chain);
    }

    /** Returns the key in these headers; null: there is none. */
    static String key(List<String> given) {
        Matcher key = KEY.matcher(given.size() == 1 ? given.get(0).strip() : "");
        if (!key.matches()) {
            return null;
        }
        String quoted = key.group(1);
        return quoted == null ? key.group(2) : quoted.replaceAll("\\\\(.)", "$1");
    }

    private Rule rule(HandlerExecutionChain found) {
        return found != null && found.getHandler() instanceof HandlerMethod handler
                ? rules.get(keyOf(handler))
                : null;
    }

    /** Returns the handler that the servlet will find; null: none. */
    private HandlerExecutionChain handler(HttpServletRequest request) {
        Object parsed = request.getAttribute(ServletRequestPathUtils.PATH_ATTRIBUTE);
        ServletRequestPathUtils.parseAndCache(request); // a forward leaves the path before it there
        try {
            for (RequestMappingHandlerMapping each : mappings) {
                HandlerExecutionChain found = each.getHandler(request);
                if (found != null) {
                    return found;
                }
            }
        } catch (Exception e) { // such as 405 or 415: the servlet finds it, too
            return null;
        } finally {
            request.setAttribute(ServletRequestPathUtils.PATH_ATTRIBUTE, parsed);
        }
        return null;
    }

    /**
     * Sets the headers with which a browser lets a page of another origin read the answer, also if the
     * handler is not called; returns whether that origin may send the request. If not, it has its answer.
     */
    private static boolean admits(
            HandlerExecutionChain handler, HttpServletRequest request, HttpServletResponse response)
            throws ServletException, IOException {
        try {
            for (HandlerInterceptor each : handler.getInterceptorList()) {
                if (each instanceof CorsConfigurationSource) {
                    return each.preHandle(request, response, handler.getHandler());
                }
            }
            return true;
        } catch (ServletException | IOException | RuntimeException e) {
            throw e;
        } catch (Exception e) { // as the servlet does
            throw new ServletException(e);
        }
    }

    private static String name(Rule rule, HttpServletRequest request, String key) {
        Principal principal = request.getUserPrincipal();
        String user = principal == null ? "" : part(principal.getName()) + ":";
        return "idempotent:" + rule.scope + ":" + user + part(key);
    }

    private static byte[] pair(String name, String value) {
        String text =
                URLEncoder.encode(name, StandardCharsets.UTF_8)
                        + "="
                        + URLEncoder.encode(value, StandardCharsets.UTF_8);
        return (text + "\n").getBytes(StandardCharsets.UTF_8);
    }

    private static String part(String text) {
        return Holdfast.quote(text).replace(":", "%3A");
    }

    private Turn begin(HoldfastLock lock, Rule rule, byte[] print, HttpServletResponse response)
            throws IOException {
        OnceOptions<byte[]> options =
                OnceOptions.of(rule.ttl, Codec.BYTES)
                        .atMostOnce(true)
                        .timeout(Duration.ZERO)
                        .args(print);
        try {
            return lock.begin(options);
        } catch (LockTimeoutException e) {
            response.setHeader("Retry-After", "1");
            refuse(
                    response,
                    409,
                    "The request with this Idempotency-Key is in progress. Ask again later.");
        } catch (OutcomeUnknownException e) {
            refuse(
                    response,
                    409,
                    "It is unknown how the request with this Idempotency-Key ended. It is not carried"
                            + " out again until its outcome is settled.");
        } catch (FingerprintMismatchException e) {
            refuse(
                    response,
                    422,
                    "This Idempotency-Key belongs to a request with another method, path, query or"
                            + " body. Another request takes another key.");
        } catch (KeptErrorException e) {
            refuse(
                    response,
                    409,
                    "The request with this Idempotency-Key failed, and is not carried out again.");
        } catch (HoldfastException | LockNotHeldException | ClosedException e) {
            LOG.error("an idempotent request was not carried out: " + e.getMessage(), e);
            unavailable(response);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            unavailable(response);
        }
        return null;
    }

    private void unavailable(HttpServletResponse response) throws IOException {
        response.setHeader("Retry-After", "1");
        refuse(
                response,
                503,
                "This request was not carried out. Send it again with the same Idempotency-Key.");
    }

    private void observed(
            HoldfastLock lock,
            Turn turn,
            Rule rule,
            HttpServletRequest request,
            HttpServletResponse response,
            FilterChain chain)
            throws ServletException, IOException {
        boolean[] begun = new boolean[1];
        try {
            observations
                    .obtain()
                    .during(
                            turn.hold(),
                            lock.getName(),
                            () -> {
                                begun[0] = true;
                                call(lock, turn, rule, request, response, chain);
                                return null;
                            });
        } catch (ServletException | IOException | RuntimeException e) {
            throw e;
        } catch (Exception e) { // the call throws no other exception
            throw new ServletException(e);
        } finally {
            if (!begun[0]) { // an observation's handler failed
                end(() -> forget(lock, turn));
            }
        }
    }

    private static void call(
            HoldfastLock lock,
            Turn turn,
            Rule rule,
            HttpServletRequest request,
            HttpServletResponse response,
            FilterChain chain)
            throws ServletException, IOException {
        IdempotentAnswer.Pending pending = new IdempotentAnswer.Pending(response);
        boolean[] called = IdempotentBeans.listen();
        try {
            chain.doFilter(request, pending);
        } catch (Throwable e) {
            end(
                    () -> {
                        if (called[0]) {
                            turn.unknown(e.toString());
                        } else {
                            forget(lock, turn);
                        }
                    });
            throw e;
        } finally {
            IdempotentBeans.forget();
        }
        int status = pending.getStatus();
        if (!called[0]) {
            end(() -> forget(lock, turn));
        } else if (status >= 500) {
            end(() -> turn.unknown("the answer was " + status));
        } else {
            end(() -> keep(turn, pending.answer(), rule.ttl));
        }
        pending.send();
    }

    /** Forgets a call whose handler was not called: the same key may arrive with a better request. */
    private static void forget(HoldfastLock lock, Turn turn) {
        long fence = turn.hold().fence();
        try {
            lock.onceResult()
                    .filter(found -> found.fence() == fence)
                    .ifPresent(found -> found.forget(true));
        } finally {
            turn.withdraw();
        }
    }

    private static void keep(Turn turn, IdempotentAnswer answer, Duration ttl) {
        try {
            turn.finish(answer.bytes(), ttl);
        } catch (IllegalArgumentException e) { // too long
            turn.unknown("the answer could not be kept: " + e.getMessage());
            throw e;
        }
    }

    /** Runs the end of a call, and throws nothing: the answer goes to its own client in any case. */
    private static void end(Runnable end) {
        try {
            end.run();
        } catch (RuntimeException e) {
            LOG.error("the outcome of an idempotent request is unknown: " + e.getMessage(), e);
        }
    }

    private void refuse(HttpServletResponse response, int status, String why)
            throws IOException {
        HttpStatusCode code = HttpStatusCode.valueOf(status);
        ProblemDetail problem = ProblemDetail.forStatusAndDetail(code, why);
        for (HttpMessageConverter<?> each :
                beans.getBean("requestMappingHandlerAdapter", RequestMappingHandlerAdapter.class)
                        .getMessageConverters()) {
            if (each.canWrite(ProblemDetail.class, MediaType.APPLICATION_PROBLEM_JSON)) {
                ServletServerHttpResponse out = new ServletServerHttpResponse(response);
                out.setStatusCode(code);
                write(each, problem, out);
                out.flush();
                return;
            }
        }
        response.sendError(status, why);
    }

    @SuppressWarnings("unchecked")
    private static void write(
            HttpMessageConverter<?> converter, Object problem, ServletServerHttpResponse out)
            throws IOException {
        ((HttpMessageConverter<Object>) converter)
                .write(problem, MediaType.APPLICATION_PROBLEM_JSON, out);
    }

    /**
     * A request whose attributes and observation a search for its handler does not change: another servlet
     * may answer it, such as that of JSPs.
     */
    private static final class Glance extends HttpServletRequestWrapper {
        private final Map<String, Object> changed = new HashMap<>();

        Glance(HttpServletRequest request) {
            super(request);
            removeAttribute(ServerHttpObservationFilter.CURRENT_OBSERVATION_CONTEXT_ATTRIBUTE);
        }

        @Override
        public Object getAttribute(String name) {
            return changed.containsKey(name) ? changed.get(name) : super.getAttribute(name);
        }

        @Override
        public void setAttribute(String name, Object value) {
            changed.put(name, value);
        }

        @Override
        public void removeAttribute(String name) {
            changed.put(name, null);
        }
    }

    /** A request that is answered before its handler returns, and whose body may already have been read. */
    private static final class Inner extends HttpServletRequestWrapper {
        private final byte[] body; // or null
        private ServletInputStream stream;

        Inner(HttpServletRequest request, byte[] body) {
            super(request);
            this.body = body;
        }

        @Override
        public boolean isAsyncSupported() {
            return false;
        }

        @Override
        public ServletInputStream getInputStream() throws IOException {
            if (body == null) {
                return super.getInputStream();
            }
            if (stream == null) {
                stream = new Bytes(body);
            }
            return stream;
        }

        @Override
        public BufferedReader getReader() throws IOException {
            if (body == null) {
                return super.getReader();
            }
            String charset = getCharacterEncoding();
            return new BufferedReader(
                    new InputStreamReader(getInputStream(), charset == null ? "UTF-8" : charset));
        }
    }

    private static final class Bytes extends ServletInputStream {
        private final ByteArrayInputStream bytes;

        Bytes(byte[] body) {
            bytes = new ByteArrayInputStream(body);
        }

        @Override
        public int read() {
            return bytes.read();
        }

        @Override
        public int read(byte[] into, int from, int length) {
            return bytes.read(into, from, length);
        }

        @Override
        public boolean isFinished() {
            return bytes.available() == 0;
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setReadListener(ReadListener listener) {
            throw new IllegalStateException("the body was read already: read it without a listener");
        }
    }
}
