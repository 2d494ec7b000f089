package io.holdfast.spring;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;

/** A real PostgreSQL and a real MariaDB, which end with this JVM. */
final class Databases {
    private static Databases shared;

    private final String postgresql;
    private final String mariadb;

    private Databases(String postgresql, String mariadb) {
        this.postgresql = postgresql;
        this.mariadb = mariadb;
    }

    private static synchronized Databases shared() {
        if (shared == null) {
            shared = start();
        }
        return shared;
    }

    private static Databases start() {
        String script =
                "echo $HOLDFAST_TEST_POSTGRESQL; echo $HOLDFAST_TEST_MARIADB; cat >/dev/null";
        Path program =
                Path.of(System.getProperty("holdfast.source", "../.."), "tests", "with-databases");
        try {
            Process process =
                    new ProcessBuilder(program.toString(), "sh", "-c", script)
                            .redirectError(ProcessBuilder.Redirect.INHERIT)
                            .start();
            BufferedReader lines = process.inputReader();
            return new Databases(lines.readLine(), lines.readLine());
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /** The properties of an application with that database: postgresql, mariadb or h2. */
    static Map<String, Object> properties(String database) {
        String given =
                switch (database) {
                    case "postgresql" -> shared().postgresql;
                    case "mariadb" -> shared().mariadb.replace("mysql:", "mariadb:");
                    default -> "h2:mem:" + Application.unique().replace(':', '_');
                };
        String user = given.contains("@") ? given.replaceAll(".*//|@.*", "") : "sa";
        return Map.of(
                "spring.datasource.url", "jdbc:" + given.replaceFirst("//.*@", "//"),
                "spring.datasource.username", user);
    }
}
