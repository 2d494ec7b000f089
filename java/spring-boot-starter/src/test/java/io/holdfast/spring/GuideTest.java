package io.holdfast.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Holdfast;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The programs of docs/guides for Spring, compiled and run as their readers do. */
final class GuideTest {
    private static final Path ROOT = Path.of(System.getProperty("holdfast.source", "../.."));

    private static final String SHOP =
            """
            import io.holdfast.HoldfastClient;
            import io.holdfast.spring.HoldfastLeaders;
            import java.math.BigDecimal;
            import org.springframework.boot.SpringApplication;
            import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
            import org.springframework.context.annotation.AnnotationConfigApplicationContext;
            import org.springframework.context.annotation.Import;
            import org.springframework.scheduling.annotation.EnableScheduling;

            @EnableAutoConfiguration
            @EnableScheduling
            @Import({Orders.class, Reports.class, Charges.class, Matcher.class})
            public class Shop {
                public static void main(String[] arguments) throws Exception {
                    try (var shop = SpringApplication.run(Shop.class, arguments)) {
                        Orders orders = shop.getBean(Orders.class);
                        System.out.println("grows: " + (orders.refund("7") < orders.refund("7")));
                        System.out.println(orders.print("7").join());
                        Reports reports = shop.getBean(Reports.class);
                        reports.nightly();
                        reports.nightly(); // finds that it ran
                        Charges charges = shop.getBean(Charges.class);
                        System.out.println(charges.charge("guide", new BigDecimal("12.50")));
                        HoldfastClient client = shop.getBean(HoldfastClient.class);
                        System.out.println("forgotten: " + client.onceForget("charge:guide", false));
                        System.out.println(shop.getBean(HoldfastLeaders.class).leader("matcher"));
                        System.out.println("kept: " + client.lock("Reports.nightly").forceUnlock());
                    }
                    System.setProperty("holdfast.url", arguments[0].split("=")[1]);
                    try (var plain = new AnnotationConfigApplicationContext(LockConfiguration.class)) {
                        System.out.println(plain.getBean(HoldfastClient.class).lock("x").tryLock());
                    } finally {
                        System.clearProperty("holdfast.url");
                    }
                }
            }
            """;

    @TempDir Path folder;

    @BeforeEach
    void needsACompiler() {
        Assumptions.assumeTrue(ToolProvider.getSystemJavaCompiler() != null, "this is no JDK");
    }

    /** Compiles them, and gives a class loader that has them. */
    private URLClassLoader compile(List<Path> sources, String... options) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        List<String> all = new ArrayList<>(List.of(options));
        all.addAll(List.of("-proc:none", "-d", folder.toString(), "-cp"));
        all.add(
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"))
                        + File.pathSeparator
                        + System.getProperty("java.class.path"));
        sources.forEach(source -> all.add(source.toString()));
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        assertEquals(0, compiler.run(null, said, said, all.toArray(String[]::new)), said::toString);
        return new URLClassLoader(
                new URL[] {folder.toUri().toURL()}, GuideTest.class.getClassLoader());
    }

    private Path write(String name, String text) throws IOException {
        return Files.writeString(folder.resolve(name), text);
    }

    @Test
    void theProgramOfTheGuideRuns() throws Exception {
        String guide = Files.readString(ROOT.resolve("docs/guides/spring.md"));
        List<Path> sources = new ArrayList<>();
        for (MatchResult block : blocks(guide, "java")) {
            sources.add(write(block.group(1), block.group(2)));
        }
        assertEquals(6, sources.size());
        assertEquals(7, guide.split("```java", -1).length, "a block does not name its file");
        sources.add(write("Shop.java", SHOP));
        String said;
        try (URLClassLoader classes = compile(sources, "-parameters")) {
            said =
                    run(
                            classes,
                            "Shop",
                            "--holdfast.url=" + Application.url(),
                            "--spring.main.banner-mode=off",
                            "--spring.main.web-application-type=none",
                            "--spring.main.register-shutdown-hook=false");
        }
        assertEquals(
                "grows: true\nthe invoice of 7\nthe report\nReceipt[order=guide, amount=12.50]\n"
                        + "forgotten: true\nLeader[matcher]\nkept: true\ntrue\n",
                said);
    }

    /** Runs a program in this JVM, and gives what it prints. */
    private static String run(URLClassLoader classes, String program, String... arguments)
            throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try {
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            Thread.currentThread().setContextClassLoader(classes);
            classes.loadClass(program)
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
        } finally {
            System.setOut(before);
            Thread.currentThread().setContextClassLoader(loader);
        }
        return said.toString(StandardCharsets.UTF_8);
    }

    private static final String SALE =
            """
            import io.holdfast.spring.StaleFenceException;
            import java.nio.file.Files;
            import java.nio.file.Path;
            import org.springframework.boot.SpringApplication;
            import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
            import org.springframework.boot.autoconfigure.orm.jpa.HibernateJpaAutoConfiguration;
            import org.springframework.context.annotation.Import;
            import org.springframework.jdbc.core.JdbcTemplate;

            @EnableAutoConfiguration(exclude = HibernateJpaAutoConfiguration.class)
            @Import(Stock.class)
            public class Sale {
                public static void main(String[] arguments) {
                    try (var sale = SpringApplication.run(Sale.class, arguments)) {
                        JdbcTemplate jdbc = sale.getBean(JdbcTemplate.class);
                        jdbc.execute("drop table if exists item, holdfast_fence");
                        jdbc.execute(System.getProperty("migration"));
                        jdbc.execute("create table item (id bigint primary key, stock int)");
                        jdbc.execute("insert into item values (7, 10)");
                        Stock stock = sale.getBean(Stock.class);
                        stock.sell(7);
                        jdbc.execute("update holdfast_fence set fence = fence + 1000000000000");
                        try {
                            stock.sell(7);
                        } catch (StaleFenceException late) {
                            System.out.println(late.name() + " " + (late.last() - late.fence() > 0));
                        }
                        System.out.println(jdbc.queryForObject("select stock from item", int.class));
                    }
                }
            }
            """;

    private static List<MatchResult> blocks(String guide, String language) {
        return Pattern.compile(
                        "^```" + language + "\n(?://|--) (\\S+)\n(.*?)^```$",
                        Pattern.MULTILINE | Pattern.DOTALL)
                .matcher(guide)
                .results()
                .toList();
    }

    @Test
    void theGuideOfFenceChecksRefusesALateHolder() throws Exception {
        String guide = Files.readString(ROOT.resolve("docs/guides/fences.md"));
        List<Path> sources = new ArrayList<>(List.of(write("Sale.java", SALE)));
        for (MatchResult block : blocks(guide, "java")) {
            sources.add(write(block.group(1), block.group(2)));
        }
        assertEquals(3, sources.size());
        assertEquals(3, guide.split("```java", -1).length, "a block does not name its file");
        List<String> arguments = new ArrayList<>();
        arguments.add("--holdfast.url=" + Application.url());
        arguments.add("--spring.main.banner-mode=off");
        Databases.properties("postgresql")
                .forEach((key, value) -> arguments.add("--" + key + "=" + value));
        MatchResult migration = blocks(guide, "sql").get(0);
        assertEquals("postgresql.sql", migration.group(1));
        System.setProperty("migration", migration.group(2));
        try (URLClassLoader classes = compile(sources, "-parameters")) {
            assertEquals(
                    "item:7 true\n9\n", run(classes, "Sale", arguments.toArray(String[]::new)));
        } finally {
            System.clearProperty("migration");
        }
    }

    @Test
    void whatTheGuideTellsToWriteIsReal() throws Exception {
        String guide = Files.readString(ROOT.resolve("docs/guides/spring.md"));
        String coordinates =
                "<artifactId>holdfast-spring-boot-starter</artifactId>\n  <version>%s</version>";
        assertTrue(guide.contains(coordinates.formatted(Holdfast.version())));
        String path = "/META-INF/spring-configuration-metadata.json";
        String metadata;
        try (var stream = HoldfastProperties.class.getResourceAsStream(path)) {
            metadata = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        }
        List<String> properties =
                Pattern.compile("(?:^|`)([a-z.]*holdfast\\.[a-z.-]*[a-z])(?=[=.`])", Pattern.MULTILINE)
                        .matcher(guide)
                        .results()
                        .map(found -> found.group(1))
                        .toList();
        assertTrue(properties.size() >= 6, properties::toString);
        for (String each : properties) {
            assertTrue(metadata.contains("\"name\": \"" + each + "\""), each);
        }
    }

    @Test
    void withoutTheNamesOfParametersItSaysHowToHaveThem() throws Exception {
        Path source =
                write(
                        "Nameless.java",
                        """
                        public class Nameless {
                            @io.holdfast.spring.Locked("order:#{#id}")
                            public void refund(String id) {}
                        }
                        """);
        try (URLClassLoader classes = compile(List.of(source))) {
            String said = Application.refusal(classes.loadClass("Nameless"));
            assertTrue(said.contains("Nameless.refund(String)"), said);
            assertTrue(said.contains("-parameters") && said.contains("#p0"), said);
        }
    }
}
