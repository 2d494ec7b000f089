package io.holdfast;

import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/**
 * A program of its own, for {@link ProcessTest}: loads the library in a class loader, uses it, and
 * drops it all, several times over. The last argument says whether it closes its clients.
 */
final class Unloading {
    public static void main(String[] arguments) throws Exception {
        boolean closes = arguments[3].equals("close");
        for (int i = 0; i < 3; i++) {
            WeakReference<ClassLoader> loader =
                    use(Path.of(arguments[0]).toUri().toURL(), arguments[1], arguments[2], closes);
            while (loader.get() != null) {
                System.gc();
                Thread.sleep(5);
            }
        }
        System.out.print("done");
    }

    private static WeakReference<ClassLoader> use(
            URL classes, String url, String name, boolean closes) throws Exception {
        ClassLoader parent = ClassLoader.getPlatformClassLoader();
        URLClassLoader loader = new URLClassLoader(new URL[] {classes}, parent);
        Class<?> holdfast = loader.loadClass("io.holdfast.Holdfast");
        Object client = holdfast.getMethod("connect", String.class).invoke(null, url);
        Object lock = client.getClass().getMethod("lock", String.class).invoke(client, name);
        Object hold = lock.getClass().getMethod("acquire").invoke(lock);
        Object waiting = lock.getClass().getMethod("acquireAsync").invoke(lock);
        waiting.getClass().getMethod("cancel", boolean.class).invoke(waiting, true);
        hold.getClass().getMethod("close").invoke(hold);
        lock.getClass().getMethod("lock").invoke(lock);
        lock.getClass().getMethod("unlock").invoke(lock);
        if (closes) {
            lock.getClass().getMethod("lock").invoke(lock); // and this thread lives on
            client.getClass().getMethod("close").invoke(client);
        }
        return new WeakReference<>(loader);
    }
}
