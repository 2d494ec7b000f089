package io.holdfast;

import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/**
 * A program of its own, for {@link ProcessTest}: loads the library in a class loader, uses it, and
 * drops it all, several times over. The third argument says whether it closes its clients, which
 * static fields keep then.
 */
final class Unloading {
    public static void main(String[] arguments) throws Exception {
        boolean closes = arguments[2].equals("close");
        URL[] classes = new URL[2];
        for (int i = 0; i < 2; i++) {
            classes[i] = Path.of(arguments[3 + i]).toUri().toURL();
        }
        for (int i = 0; i < 3; i++) {
            WeakReference<ClassLoader> loader =
                    use(classes, arguments[0], arguments[1], closes);
            while (loader.get() != null) {
                System.gc();
                Thread.sleep(5);
            }
        }
        System.out.print("done");
    }

    /** A class of the application. */
    public static final class Statics {
        public static Object client;
        public static Object lock;
    }

    private static WeakReference<ClassLoader> use(
            URL[] classes, String url, String name, boolean closes) throws Exception {
        ClassLoader parent = ClassLoader.getPlatformClassLoader();
        URLClassLoader loader = new URLClassLoader(classes, parent);
        Class<?> holdfast = loader.loadClass("io.holdfast.Holdfast");
        Object client = holdfast.getMethod("connect", String.class).invoke(null, url);
        Object lock = type(client).getMethod("lock", String.class).invoke(client, name);
        Object hold = type(lock).getMethod("acquire").invoke(lock);
        Object waiting = type(lock).getMethod("acquireAsync").invoke(lock);
        waiting.getClass().getMethod("cancel", boolean.class).invoke(waiting, true);
        type(hold).getMethod("close").invoke(hold);
        type(lock).getMethod("lock").invoke(lock);
        type(lock).getMethod("unlock").invoke(lock);
        if (closes) {
            type(lock).getMethod("lock").invoke(lock); // and this thread lives on
            type(client).getMethod("close").invoke(client);
            Class<?> statics = loader.loadClass(Statics.class.getName());
            statics.getField("client").set(null, client);
            statics.getField("lock").set(null, lock);
        }
        return new WeakReference<>(loader);
    }

    /** The public interface that it is. */
    private static Class<?> type(Object object) {
        return object.getClass().getInterfaces()[0];
    }
}
