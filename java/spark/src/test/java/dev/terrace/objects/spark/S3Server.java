package dev.terrace.objects.spark;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.function.Function;
import org.gaul.s3proxy.S3Proxy;
import org.jclouds.ContextBuilder;
import org.jclouds.blobstore.BlobStore;
import org.jclouds.blobstore.BlobStoreContext;

/// An S3 server in this process, behind a door at which requests may be lost as in a network.
///
/// The server looks whether an object is there, and then writes it; S3 does both at once. So the
/// door lets in one conditional write at a time. The server ends with the process.
final class S3Server {
    private static final String BUCKET = "bucket";

    /// What becomes of a request.
    enum Fate {
        PASSES,
        IS_LOST,
        LOSES_ITS_ANSWER,
        /// It comes when it is delivered. The client has no answer.
        WAITS,
        /// It comes without its condition, as to a server that does not know that.
        IS_UNCONDITIONAL,
        IS_NOT_IMPLEMENTED,
        /// As S3 answers if another write of the same name is under way.
        MEETS_ANOTHER
    }

    /// A request.
    ///
    /// @param path of the bucket and the object
    record Request(String method, String path, URI uri, Headers headers, byte[] body) {
        private static final String CONDITION = "If-None-Match";

        /// Whether it writes an object if there is none of its name.
        boolean isConditional() {
            return method.equals("PUT") && headers.containsKey(CONDITION);
        }

        private Request withoutCondition() {
            Headers others = new Headers();
            others.putAll(headers);
            others.remove(CONDITION);
            return new Request(method, path, uri, others, body);
        }
    }

    /// Those that a client has to leave to the library that sends requests.
    private static final Set<String> OF_CONNECTIONS =
            Set.of(
                    "connection",
                    "content-length",
                    "expect",
                    "host",
                    "transfer-encoding",
                    "upgrade");

    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Queue<Request> waiting = new ConcurrentLinkedQueue<>();
    private final Object writing = new Object();
    private final int server;
    private final int door;
    private volatile Function<Request, Fate> fates = request -> Fate.PASSES;

    S3Server() throws Exception {
        BlobStore objects =
                ContextBuilder.newBuilder("transient")
                        .credentials("identity", "credential")
                        .build(BlobStoreContext.class)
                        .getBlobStore();
        objects.createContainerInLocation(null, BUCKET);
        S3Proxy proxy =
                S3Proxy.builder()
                        .blobStore(objects)
                        .endpoint(URI.create("http://127.0.0.1:0"))
                        // Of checksums that S3 would verify.
                        .ignoreUnknownHeaders(true)
                        .build();
        proxy.start();
        server = proxy.getPort();
        HttpServer http =
                HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        http.setExecutor(Executors.newCachedThreadPool(S3Server::thread));
        http.createContext("/", this::handle);
        http.start();
        door = http.getAddress().getPort();
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "door");
        thread.setDaemon(true);
        return thread;
    }

    /// The URI of a directory.
    static String uri(String directory) {
        return "s3a://" + BUCKET + "/" + directory;
    }

    /// What a configuration of Hadoop needs to find it, and to give up soon.
    Map<String, String> settings() {
        Map<String, String> settings = new HashMap<>();
        settings.put("fs.s3a.endpoint", "http://127.0.0.1:" + door);
        settings.put("fs.s3a.endpoint.region", "us-east-1");
        settings.put("fs.s3a.path.style.access", "true");
        settings.put("fs.s3a.connection.ssl.enabled", "false");
        settings.put("fs.s3a.access.key", "identity");
        settings.put("fs.s3a.secret.key", "credential");
        settings.put("fs.s3a.attempts.maximum", "2");
        settings.put("fs.s3a.retry.limit", "1");
        settings.put("fs.s3a.retry.interval", "10ms");
        settings.put("fs.s3a.buffer.dir", Path.of("target", "s3a").toAbsolutePath().toString());
        return settings;
    }

    /// Decides what becomes of requests from now on.
    void decide(Function<Request, Fate> of) {
        fates = of;
    }

    /// Lets in what has waited.
    ///
    /// @return what the server said to each
    List<Integer> deliver() throws IOException {
        List<Integer> answers = new ArrayList<>();
        for (Request request = waiting.poll(); request != null; request = waiting.poll()) {
            answers.add(forward(request).statusCode());
        }
        return answers;
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange;
                InputStream in = exchange.getRequestBody()) {
            Request request =
                    new Request(
                            exchange.getRequestMethod(),
                            exchange.getRequestURI().getPath(),
                            exchange.getRequestURI(),
                            exchange.getRequestHeaders(),
                            in.readAllBytes());
            switch (fates.apply(request)) {
                case PASSES -> answer(exchange, forward(request));
                case IS_LOST -> {}
                case LOSES_ITS_ANSWER -> forward(request);
                case WAITS -> waiting.add(request);
                case IS_UNCONDITIONAL -> answer(exchange, forward(request.withoutCondition()));
                case IS_NOT_IMPLEMENTED -> refuse(exchange, 501, "NotImplemented");
                case MEETS_ANOTHER -> refuse(exchange, 409, "ConditionalRequestConflict");
            }
        }
    }

    private HttpResponse<byte[]> forward(Request request) throws IOException {
        if (request.isConditional()) {
            synchronized (writing) {
                return send(request);
            }
        }
        return send(request);
    }

    private HttpResponse<byte[]> send(Request request) throws IOException {
        HttpRequest.Builder builder =
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server + request.uri()))
                        .method(request.method(), BodyPublishers.ofByteArray(request.body()));
        request.headers()
                .forEach((name, values) -> {
                    if (!OF_CONNECTIONS.contains(name.toLowerCase(Locale.ROOT))) {
                        values.forEach(value -> builder.header(name, value));
                    }
                });
        try {
            return client.send(builder.build(), BodyHandlers.ofByteArray());
        } catch (InterruptedException e) {
            throw new UncheckedIOException(new IOException(e));
        }
    }

    private static void answer(HttpExchange exchange, HttpResponse<byte[]> response)
            throws IOException {
        boolean isHead = exchange.getRequestMethod().equals("HEAD");
        response.headers()
                .map()
                .forEach((name, values) -> {
                    String lower = name.toLowerCase(Locale.ROOT);
                    boolean isLength = lower.equals("content-length");
                    if (isLength ? isHead : !OF_CONNECTIONS.contains(lower)) {
                        exchange.getResponseHeaders().put(name, values);
                    }
                });
        byte[] body = response.body();
        exchange.sendResponseHeaders(
                response.statusCode(), isHead || body.length == 0 ? -1 : body.length);
        if (!isHead && body.length > 0) {
            exchange.getResponseBody().write(body);
        }
    }

    private static void refuse(HttpExchange exchange, int status, String code) throws IOException {
        byte[] body =
                ("<Error><Code>" + code + "</Code><Message>" + code + "</Message></Error>")
                        .getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
    }
}
