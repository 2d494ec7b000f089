package io.holdfast;

import java.util.Map;

/**
 * A client's counts; see {@link HoldfastClient#stats()}.
 *
 * @param all the counts of all locks together
 * @param names the counts of the names that are counted separately ({@link LockOptions#countName});
 *     bytes of a name that are not UTF-8 appear as {@code \\xff}
 * @param others the counts of all other names together
 * @param connections connections that were opened
 * @param reconnects the connections among them that replaced a broken one
 */
public record ClientStats(
        LockStats all,
        Map<String, LockStats> names,
        LockStats others,
        long connections,
        long reconnects) {}
