/** A distributed lock on Redis. */
@SuppressWarnings("requires-automatic") // Micrometer is not a module yet
module io.holdfast {
    requires static micrometer.commons;
    requires static micrometer.core;
    requires static micrometer.observation;

    exports io.holdfast;
    exports io.holdfast.micrometer;
    exports io.holdfast.testing;
}
