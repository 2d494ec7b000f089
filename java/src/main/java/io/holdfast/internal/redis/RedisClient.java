package io.holdfast.internal.redis;

import io.holdfast.ClientOptions;
import io.holdfast.ClientStats;
import io.holdfast.Finding;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.HoldfastLocks;
import io.holdfast.LockLimit;
import io.holdfast.LockOptions;
import io.holdfast.Locks;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.ClientSettings;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_locks_options;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/** A client of Redis. */
public final class RedisClient implements HoldfastClient {
    private final Session session;

    public RedisClient(String url, ClientOptions options) {
        session = new Session(url, ClientSettings.of(options));
    }

    @Override
    public HoldfastLock lock(byte[] name, LockOptions options) {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(options, "options");
        return new RedisLock(session, name.clone(), LockSettings.of(options), false);
    }

    @Override
    public HoldfastLocks locksAll(Collection<? extends HoldfastLock> locks) {
        List<RedisLock> mine = locks.stream().map(lock -> RedisLock.of(lock, session)).toList();
        List<String> names = mine.stream().map(RedisLock::shownName).toList();
        return new HoldfastLocks(names, new RedisLocksAll(session, mine)::begin);
    }

    @Override
    public Optional<LockLimit> limit(String name, LockLimit limit) {
        return new RedisLock(session, Bytes.of(name), LockSettings.of(LockOptions.defaults()), false)
                .limit(limit);
    }

    @Override
    public Locks locks(String pattern, int rate) {
        byte[] bytes = Bytes.of(pattern);
        if (rate == 0) {
            throw new IllegalArgumentException("the rate must be 1 or more, or -1: 0");
        }
        try (hf_locks_options options = new hf_locks_options()) {
            options.setRate(rate);
            return new RedisLocks(session.call(client -> Core.hf_locks_open(client, bytes, options)));
        }
    }

    @Override
    public ClientStats stats() {
        return session.call(Stats::of);
    }

    @Override
    public void ping() {
        Threads.blocking(() -> session.call(Core::hf_client_ping));
    }

    @Override
    public List<Finding> survey(String name) {
        byte[] bytes = name == null ? null : Bytes.of(name);
        return Threads.blocking(() -> survey(bytes));
    }

    private List<Finding> survey(byte[] name) {
        List<Finding> findings = new ArrayList<>();
        for (int i = 0; ; i++) {
            int server = i;
            byte[][] found = session.call(client -> Core.hf_client_survey(client, server, name));
            if (found.length == 0) {
                return List.copyOf(findings);
            }
            for (int at = 0; at < found.length; at += 4) {
                findings.add(
                        new Finding(
                                level(found[at][0]),
                                Bytes.text(found[at + 1]),
                                Bytes.text(found[at + 2]),
                                Bytes.text(found[at + 3])));
            }
        }
    }

    private static Finding.Level level(int level) {
        return switch (level) {
            case Core.HF_FINDING_GOOD -> Finding.Level.GOOD;
            case Core.HF_FINDING_NOTE -> Finding.Level.NOTE;
            default -> Finding.Level.WARNING;
        };
    }

    @Override
    public void close() {
        session.close();
    }
}
