package dev.terrace.objects.evaluation.graph;

import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPInputStream;

/// The data set ego-Facebook ("Social circles: Facebook", McAuley and Leskovec, 2012), from the
/// archive in which it is distributed: ten people, their friends, and what all of these have in
/// their profiles, made anonymous.
final class EgoFacebook {
    private static final String SHA_256 =
            "7ce16f295d8db8914af1f568c2053640f89b59d32315b40dcd298108c1ab510c";
    private static final String EDGES = "facebook_combined.txt";
    private static final String NAMES = ".featnames";
    private static final String FRIENDS = ".feat";
    private static final String SELF = ".egofeat";
    private static final int PEOPLE = 4039;

    private EgoFacebook() {}

    /// Reads the archive `ego-facebook.tar.gz`.
    ///
    /// @throws IOException if it cannot be read, or is not the one that is known
    static SocialGraph read(Path archive) throws IOException {
        byte[] bytes = Files.readAllBytes(archive);
        String sum = sha256(bytes);
        if (!sum.equals(SHA_256)) {
            throw new IOException(
                    archive
                            + " is not the archive ego-facebook.tar.gz of the ten ego networks: its"
                            + " SHA-256 is "
                            + sum
                            + " and not "
                            + SHA_256
                            + ". Fetch it again, or leave --data out for a synthetic graph of the"
                            + " same shape");
        }
        try (InputStream in =
                new BufferedInputStream(new GZIPInputStream(new ByteArrayInputStream(bytes)))) {
            return parse(TarFile.read(in));
        }
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("each JDK has SHA-256", e);
        }
    }

    /// The graph in the files of the archive.
    static SocialGraph parse(Map<String, byte[]> files) {
        GraphBuilder graph = new GraphBuilder(PEOPLE);
        for (String line : lines(files, EDGES)) {
            String[] ends = line.split(" ");
            graph.befriend(Integer.parseInt(ends[0]), Integer.parseInt(ends[1]));
        }
        // The archive numbers a category's features through all of the data set; a person's bits
        // are numbered from 0.
        FeatureNumbers numbers = new FeatureNumbers();
        for (String name : files.keySet()) {
            if (name.endsWith(NAMES)) {
                String ego = name.substring(0, name.length() - NAMES.length());
                int[] features = lines(files, name).stream().mapToInt(numbers::of).toArray();
                for (String line : lines(files, ego + FRIENDS)) {
                    String[] parts = line.split(" ", 2);
                    addAll(graph, Integer.parseInt(parts[0]), features, parts[1]);
                }
                addAll(graph, Integer.parseInt(ego), features, lines(files, ego + SELF).getFirst());
            }
        }
        return graph.build();
    }

    private static List<String> lines(Map<String, byte[]> files, String name) {
        byte[] content = files.get(name);
        if (content == null) {
            throw new IllegalArgumentException("the archive has no " + name);
        }
        return new String(content, StandardCharsets.US_ASCII).lines().toList();
    }

    private static void addAll(GraphBuilder graph, int person, int[] features, String bits) {
        String[] has = bits.split(" ");
        for (int i = 0; i < features.length; i++) {
            if (has[i].equals("1")) {
                graph.add(person, features[i]);
            }
        }
    }
}
