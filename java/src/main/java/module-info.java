/** A distributed lock on Redis. */
module io.holdfast {
    exports io.holdfast;
}
