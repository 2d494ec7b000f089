package io.holdfast;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A process of callers: says what they got, or never gives its result. */
final class OnceProgram {
    private OnceProgram() {}

    public static void main(String[] arguments) throws Exception {
        Duration ttl = Duration.ofMinutes(1);
        try (HoldfastClient client = Holdfast.connect(arguments[0])) {
            HoldfastLock lock =
                    client.lock(
                            arguments[1],
                            LockOptions.defaults().lease(Duration.ofSeconds(5)).renew(true));
            if (arguments[2].equals("die")) {
                lock.once(
                        ttl,
                        Hold.FOREVER,
                        Codec.UTF_8,
                        () -> {
                            Runtime.getRuntime().halt(9);
                            return "never";
                        });
            }
            List<Async<String>> callers = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                callers.add(
                        Async.start(
                                () ->
                                        lock.once(
                                                ttl,
                                                Hold.FOREVER,
                                                Codec.UTF_8,
                                                () -> {
                                                    Thread.sleep(200);
                                                    return arguments[2];
                                                })));
            }
            List<String> results = new ArrayList<>();
            for (Async<String> caller : callers) {
                results.add(caller.get());
            }
            System.out.print(results.stream().distinct().toList());
        }
    }
}
