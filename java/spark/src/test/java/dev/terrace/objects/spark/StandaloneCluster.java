package dev.terrace.objects.spark;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.launcher.JavaModuleOptions;

/// A standalone cluster of Spark: a master and two workers, each a process of its own, made of the
/// jars that this test has. All end with this, whatever happens.
final class StandaloneCluster implements AutoCloseable {
    private static final String HOST = "127.0.0.1";
    private static final String OTHER_HOST = "127.0.0.2";
    private static final long SECONDS_MAX = 300;

    private final Path directory;
    private final Path home;
    private final String master;
    private final List<Process> processes = new ArrayList<>();

    /// Starts it.
    ///
    /// @param directory for what its processes write
    StandaloneCluster(Path directory) throws IOException, InterruptedException {
        this.directory = directory;
        home = makeHome(directory.resolve("home"));
        int port = freePort();
        master = "spark://" + HOST + ":" + port;
        boolean done = false;
        try {
            start(
                    "master",
                    "org.apache.spark.deploy.master.Master",
                    "--host",
                    HOST,
                    "--port",
                    port,
                    "--webui-port",
                    0);
            awaitPort(port);
            // Spark does not try a task again on the same host.
            for (String host : List.of(HOST, OTHER_HOST)) {
                String worker = "worker-" + host;
                start(
                        worker,
                        "org.apache.spark.deploy.worker.Worker",
                        "--host",
                        host,
                        "--cores",
                        1,
                        "--memory",
                        "1g",
                        "--webui-port",
                        0,
                        "--work-dir",
                        directory.resolve(worker),
                        master);
            }
            done = true;
        } finally {
            if (!done) {
                close();
            }
        }
    }

    /// The cluster's address.
    String master() {
        return master;
    }

    /// What the executors need beside Spark.
    static String classPath() {
        return String.join(
                File.pathSeparator,
                entries()
                        .filter(entry -> !entry.endsWith(".jar") || entry.contains("terrace"))
                        .toList());
    }

    private static Stream<String> entries() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator));
    }

    /// A directory that looks like an installation of Spark: workers start executors with its jars.
    private static Path makeHome(Path home) throws IOException {
        Path jars = Files.createDirectories(home.resolve("jars"));
        for (String entry : entries().filter(name -> name.endsWith(".jar")).toList()) {
            Path jar = Path.of(entry).toAbsolutePath();
            Files.createSymbolicLink(jars.resolve(jar.getFileName()), jar);
        }
        return home;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HOST))) {
            return socket.getLocalPort();
        }
    }

    private void awaitPort(int port) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
        while (true) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(HOST, port), 1000);
                return;
            } catch (IOException e) {
                if (System.nanoTime() > end) {
                    throw new AssertionError(
                            "the master does not answer: " + directory.resolve("master.log"), e);
                }
                Thread.sleep(50);
            }
        }
    }

    private Process start(String name, String main, Object... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(JavaModuleOptions.defaultModuleOptionArray()));
        // Such processes live for a moment: that is not worth an optimizing compiler.
        command.addAll(
                List.of(
                        "-XX:TieredStopAtLevel=1",
                        "-XX:+UseSerialGC",
                        "-Xmx512m",
                        "-XX:-CreateCoredumpOnCrash"));
        command.addAll(List.of("-Dterrace.log=" + System.getProperty("terrace.log", "warn")));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main));
        Stream.of(arguments).map(Object::toString).forEach(command::add);
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
        builder.environment()
                .putAll(
                        Map.of(
                                "SPARK_HOME",
                                home.toString(),
                                "SPARK_SCALA_VERSION",
                                "2.13",
                                "JAVA_HOME",
                                System.getProperty("java.home")));
        builder.redirectErrorStream(true).redirectOutput(directory.resolve(name + ".log").toFile());
        Process process = builder.start();
        processes.add(process);
        return process;
    }

    /// Runs a driver until it ends.
    ///
    /// @return what it wrote
    List<String> run(Class<?> driver, Object... arguments)
            throws IOException, InterruptedException {
        Process process = start("driver", driver.getName(), arguments);
        boolean hasEnded = process.waitFor(SECONDS_MAX, TimeUnit.SECONDS);
        List<String> lines = Files.readAllLines(directory.resolve("driver.log"));
        if (!hasEnded || process.exitValue() != 0) {
            throw new AssertionError(
                    (hasEnded ? "the driver failed" : "the driver does not end")
                            + ":\n"
                            + String.join("\n", lines));
        }
        return lines;
    }

    @Override
    public void close() throws IOException {
        // First those that start others.
        for (Process process : processes) {
            List<ProcessHandle> started = process.descendants().toList();
            process.toHandle().destroyForcibly();
            started.forEach(ProcessHandle::destroyForcibly);
            process.onExit().join();
            started.forEach(handle -> handle.onExit().join());
        }
        PartStore.deleteTree(home);
    }
}
