package io.holdfast;

import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/**
 * A program of its own, for {@link LoadingTest}: two class loaders have the library at the same
 * time, as two applications in one server do, and exclude each other.
 */
final class TwoLoaders {
    public static void main(String[] arguments) throws Exception {
        try (AutoCloseable one = connect(arguments[0], arguments[1]);
                AutoCloseable other = connect(arguments[0], arguments[1])) {
            Object lock = lock(one, arguments[2]);
            Object same = lock(other, arguments[2]);
            call(lock, "lock");
            System.out.print(call(same, "tryLock"));
            call(lock, "unlock");
            System.out.print(" " + call(same, "tryLock"));
        } catch (InvocationTargetException e) {
            System.out.print(e.getCause());
        }
    }

    private static AutoCloseable connect(String classes, String url) throws Exception {
        URL[] path = {Path.of(classes).toUri().toURL()};
        ClassLoader loader = new URLClassLoader(path, ClassLoader.getPlatformClassLoader());
        Class<?> holdfast = loader.loadClass("io.holdfast.Holdfast");
        return (AutoCloseable) holdfast.getMethod("connect", String.class).invoke(null, url);
    }

    private static Object lock(Object client, String name) throws Exception {
        return type(client).getMethod("lock", String.class).invoke(client, name);
    }

    private static Object call(Object object, String method) throws Exception {
        return type(object).getMethod(method).invoke(object);
    }

    /** The public interface that it is. */
    private static Class<?> type(Object object) {
        return object.getClass().getInterfaces()[0];
    }
}
