package io.holdfast.spring;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says what to do, and does not show the URL, as Spring Boot's own analyzer would. */
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
