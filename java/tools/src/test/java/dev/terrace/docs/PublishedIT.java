package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.xpath.XPath;
import javax.xml.xpath.XPathConstants;
import javax.xml.xpath.XPathExpressionException;
import javax.xml.xpath.XPathFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Document;
import org.w3c.dom.NodeList;
import org.xml.sax.SAXException;

/// What others get: the artifacts of the library, with all that a public repository asks for.
@ExtendWith(PublishedLibrary.Once.class)
class PublishedIT {
    private static final String VERSION = "0.1.0";
    private static final List<String> MODULES =
            List.of(
                    "terrace-objects",
                    "terrace-objects-arrow",
                    "terrace-objects-placement",
                    "terrace-objects-processor",
                    "terrace-objects-remote",
                    "terrace-objects-spark-4.2_2.13",
                    "terrace-objects-tools");
    private static final List<String> POMS =
            List.of("terrace-objects-bom", "terrace-objects-parent");
    private static final int JDK = 25;
    private static final boolean IS_LONG = Boolean.getBoolean("terrace.long");
    private static final int CLASS_FILES_OF_JDK_0 = 44;
    private static final XPath XPATH = XPathFactory.newInstance().newXPath();

    @TempDir private Path dir;

    /// The artifacts in a repository, by their paths; no lists that Maven keeps of them.
    private static TreeMap<String, Path> artifacts(Path repository) {
        TreeMap<String, Path> found = new TreeMap<>();
        PublishedLibrary.files(repository.resolve("dev/terrace"))
                .filter(file -> file.toString().matches(".*\\.(jar|pom)"))
                .forEach(file -> found.put(repository.relativize(file).toString(), file));
        return found;
    }

    private static Path artifact(PublishedLibrary library, String module, String ending) {
        return library.repository()
                .resolve("dev/terrace")
                .resolve(module)
                .resolve(VERSION)
                .resolve(module + "-" + VERSION + ending);
    }

    private static Document pom(PublishedLibrary library, String module)
            throws IOException, SAXException, ParserConfigurationException {
        return DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(artifact(library, module, ".pom").toFile());
    }

    private static String text(Document pom, String path) throws XPathExpressionException {
        return XPATH.evaluate(path, pom).strip();
    }

    @Test
    void eachModuleHasItsFiles(PublishedLibrary library) {
        TreeSet<String> expected = new TreeSet<>();
        for (String module : MODULES) {
            for (String ending : List.of(".pom", ".jar", "-sources.jar", "-javadoc.jar")) {
                expected.add(artifact(library, module, ending).toString());
            }
        }
        for (String module : POMS) {
            expected.add(artifact(library, module, ".pom").toString());
        }
        TreeSet<String> found = new TreeSet<>();
        artifacts(library.repository()).values().forEach(file -> found.add(file.toString()));
        assertEquals(expected, found);
    }

    @Test
    void theBomNamesAllModulesAndNothingElse(PublishedLibrary library) throws Exception {
        Document bom = pom(library, "terrace-objects-bom");
        assertEquals("", text(bom, "/project/parent"), "it inherits nothing");
        NodeList managed =
                (NodeList)
                        XPATH.evaluate(
                                "/project/dependencyManagement/dependencies/dependency",
                                bom,
                                XPathConstants.NODESET);
        List<String> names = new ArrayList<>();
        for (int i = 0; i < managed.getLength(); i++) {
            assertEquals("dev.terrace", XPATH.evaluate("groupId", managed.item(i)));
            assertEquals("${project.version}", XPATH.evaluate("version", managed.item(i)));
            names.add(XPATH.evaluate("artifactId", managed.item(i)));
        }
        Collections.sort(names);
        assertEquals(MODULES, names);
    }

    /// Modules inherit from the parent, and that from the BOM.
    @Test
    void pomsHaveWhatPublicRepositoriesAskFor(PublishedLibrary library) throws Exception {
        for (String module : Stream.concat(MODULES.stream(), POMS.stream()).toList()) {
            Document pom = pom(library, module);
            assertEquals(module, text(pom, "/project/artifactId"));
            for (String element : List.of("name", "description")) {
                assertFalse(text(pom, "/project/" + element).isEmpty(), module + ": " + element);
            }
            String parent = text(pom, "/project/parent/artifactId");
            assertTrue(parent.isEmpty() || POMS.contains(parent), module + " inherits " + parent);
        }
        Document bom = pom(library, "terrace-objects-bom");
        String workspace = Files.readString(PublishedLibrary.ROOT.resolve("Cargo.toml"));
        String url = text(bom, "/project/url");
        assertTrue(workspace.contains("\nrepository = \"" + url + "\"\n"), url);
        assertEquals(url, text(bom, "/project/scm/url"));
        assertEquals("scm:git:" + url + ".git", text(bom, "/project/scm/connection"));
        String licence = text(bom, "/project/licenses/license/name");
        assertTrue(workspace.contains("\nlicense = \"" + licence + "\"\n"), licence);
        assertTrue(workspace.contains("\nversion = \"" + text(bom, "/project/version") + "\"\n"));
        assertFalse(text(bom, "/project/developers/developer/name").isEmpty());
    }

    @Test
    void jarsCarryTheLicence(PublishedLibrary library) throws IOException {
        byte[] licence = Files.readAllBytes(PublishedLibrary.ROOT.resolve("LICENSE"));
        for (String module : MODULES) {
            for (String ending : List.of(".jar", "-sources.jar")) {
                try (JarFile jar = new JarFile(artifact(library, module, ending).toFile());
                        InputStream in = jar.getInputStream(jar.getEntry("META-INF/LICENSE"))) {
                    assertArrayEquals(licence, in.readAllBytes(), module + ending);
                }
            }
        }
    }

    @Test
    void sourcesAndDocumentationAreThere(PublishedLibrary library) throws IOException {
        for (String module : MODULES) {
            List<String> classes = names(artifact(library, module, ".jar"), "[\\w/]+\\.class");
            List<String> sources = names(artifact(library, module, "-sources.jar"), ".*\\.java");
            List<String> pages = names(artifact(library, module, "-javadoc.jar"), ".*\\.html");
            assertFalse(classes.isEmpty(), module);
            for (String name : classes) {
                String source = name.replace(".class", ".java");
                assertTrue(sources.contains(source), () -> module + " has no " + source);
            }
            assertTrue(pages.contains("index.html"), module);
        }
        assertTrue(
                names(artifact(library, "terrace-objects", "-javadoc.jar"), ".*")
                        .contains("dev.terrace.objects/dev/terrace/objects/Pool.html"));
    }

    private static List<String> names(Path jar, String pattern) throws IOException {
        try (JarFile file = new JarFile(jar.toFile())) {
            return file.stream().map(JarEntry::getName).filter(n -> n.matches(pattern)).toList();
        }
    }

    /// This test runs on the lowest JDK that the guide names.
    @Test
    void classesNeedTheJdkThatTheGuideNames(PublishedLibrary library) throws IOException {
        String page = Files.readString(Path.of("..", "docs", "GUIDE.md"));
        assertTrue(page.contains("The lowest JDK is " + JDK + "."));
        assertEquals(JDK, Runtime.version().feature());
        int classes = 0;
        for (String module : MODULES) {
            try (JarFile jar = new JarFile(artifact(library, module, ".jar").toFile())) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    if (entry.getName().endsWith(".class")) {
                        DataInputStream in = new DataInputStream(jar.getInputStream(entry));
                        in.skipNBytes(6);
                        assertEquals(
                                JDK + CLASS_FILES_OF_JDK_0,
                                in.readUnsignedShort(),
                                entry.getName());
                        classes++;
                    }
                }
            }
        }
        assertTrue(classes > 300, "the classes are found");
    }

    /// An older JDK refuses the library with the words that the guide quotes.
    @Test
    void anOlderJdkSaysWhatItLacks(PublishedLibrary library)
            throws IOException, InterruptedException {
        Path java = olderJava();
        assumeTrue(java != null, "there is no older JDK on this machine");
        Path output = dir.resolve("output");
        Process process =
                new ProcessBuilder(
                                java.toString(),
                                "-cp",
                                artifact(library, "terrace-objects-tools", ".jar").toString(),
                                "dev.terrace.objects.tools.Main")
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        assertTrue(process.waitFor(1, TimeUnit.MINUTES), "it does not end");
        String said = Files.readString(output);
        assertEquals(1, process.exitValue(), said);
        String quoted = "class file version 69.0";
        assertTrue(said.contains("UnsupportedClassVersionError"), said);
        assertTrue(said.contains(quoted), said);
        assertTrue(Files.readString(Path.of("..", "docs", "GUIDE.md")).contains(quoted));
    }

    private static Path olderJava() throws IOException {
        Path all = Path.of("/usr/lib/jvm");
        if (!Files.isDirectory(all)) {
            return null;
        }
        Pattern version = Pattern.compile("(?m)^JAVA_VERSION=\"(\\d+)");
        try (Stream<Path> homes = Files.list(all)) {
            for (Path home : homes.sorted().toList()) {
                Path release = home.resolve("release");
                var found = version.matcher(Files.exists(release) ? Files.readString(release) : "");
                if (found.find() && Integer.parseInt(found.group(1)) < JDK) {
                    return home.resolve("bin/java");
                }
            }
        }
        return null;
    }

    /// Built in a folder with another name, at another time, in another time zone, by a user with
    /// another mask.
    @Test
    void anotherBuildGivesTheSameBytes(PublishedLibrary library)
            throws IOException, InterruptedException {
        Path copy = library.copyOfSources("elsewhere/a folder");
        String sample = IS_LONG ? "" : " ARGS='--projects processor --also-make'";
        library.shell()
                .with("TZ", "Asia/Tokyo")
                .with("LC_ALL", "C")
                .run(
                        copy,
                        "umask 002; "
                                + PublishedLibrary.COMMAND
                                + " REPOSITORY=repository"
                                + sample);
        TreeMap<String, Path> here = artifacts(library.repository());
        TreeMap<String, Path> there = artifacts(copy.resolve("repository"));
        if (!IS_LONG) {
            here.keySet().retainAll(there.keySet());
            assertEquals(2 * 4 + POMS.size(), here.size(), "two modules and the poms");
        }
        assertEquals(here.keySet(), there.keySet());
        for (String name : here.keySet()) {
            assertEquals(-1, Files.mismatch(here.get(name), there.get(name)), name + " differs");
        }
    }
}
