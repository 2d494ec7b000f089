package io.holdfast.spring;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Shows the remedy, but not the URL, which Spring Boot's own analyzer would show. */
final class HoldfastUrlFailureAnalyzer extends AbstractFailureAnalyzer<HoldfastUrlException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, HoldfastUrlException cause) {
        return new FailureAnalysis(
                "Holdfast has no client: " + cause.getMessage() + ".",
                "Set the property holdfast.url, for example to redis://localhost:6379, or declare a"
                        + " bean of the type HoldfastClient; in tests, new InMemoryHoldfast().connect().",
                cause);
    }
}
