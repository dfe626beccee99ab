package dev.terrace.objects.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.Profiling;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.CostTable;
import dev.terrace.objects.placement.Device;
import dev.terrace.objects.placement.DeviceReport;
import dev.terrace.objects.placement.PlacementFile;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// From a profile of a pool to values that lie elsewhere, by the command.
class PlaceCommandTest {
    private static final String CLASS = "dev.terrace.objects.tools.Item";
    private static final int ITEMS = 20;

    @TempDir Path dir;

    private record Result(int status, String out, String err) {}

    private static Result run(Object... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        String[] words = List.of(arguments).stream().map(Object::toString).toArray(String[]::new);
        int status = Main.run(new PrintWriter(out, true), new PrintWriter(err, true), words);
        return new Result(status, out.toString(), err.toString());
    }

    private static String answer(Object... arguments) {
        Result result = run(arguments);
        assertEquals(0, result.status, result.err);
        return result.out;
    }

    private static void refused(int status, String why, Object... arguments) {
        Result result = run(arguments);
        assertEquals(status, result.status, result.out);
        assertTrue(result.err.contains(why), result.err);
        assertEquals("", result.out);
    }

    private Path pool() {
        return dir.resolve("pool");
    }

    private Path profile() {
        return dir.resolve("profile.json");
    }

    private Path devices() {
        return dir.resolve("devices.json");
    }

    private Path placement() {
        return dir.resolve("placement.json");
    }

    /// Items whose pictures are read all the time, though they are tagged to be on disk, and their
    /// labels never.
    @BeforeEach
    void takeProfile() throws IOException {
        try (Pool pool = Pool.open(pool(), PoolOptions.defaults().extents(1 << 20))) {
            for (int i = 0; i < ITEMS; i++) {
                DurableItem item = DurableItem.create(pool);
                item.setNumber(i);
                item.setLabel("label".repeat(100));
                item.setPicture(new byte[1000]);
            }
            try (Profiling profiling = pool.profile()) {
                Cursor<DurableItem> items = pool.cursor(DurableItem.TYPE);
                while (items.next()) {
                    assertEquals(1000, items.get().getPicture().length);
                }
                ProfileFile.write(profile(), profiling.profile());
            }
        }
        new DeviceReport(
                        "made up",
                        List.of(
                                Device.of(
                                        StorageTier.DRAM,
                                        CostTable.constant(10),
                                        CostTable.constant(10)),
                                Device.of(
                                        StorageTier.PMEM,
                                        CostTable.constant(100),
                                        CostTable.constant(100)),
                                Device.of(
                                                StorageTier.SSD,
                                                CostTable.constant(100_000),
                                                CostTable.constant(100_000))
                                        .asSimulated()))
                .write(devices());
    }

    @Test
    void aProfileIsShown() {
        String shown = answer("profile", "show", profile());
        assertTrue(shown.contains(CLASS + ": " + ITEMS + " objects"), shown);
        assertTrue(
                shown.lines()
                        .anyMatch(line ->
                                line.matches(
                                        "picture +DISK +20 +0 +0 +0 +19.5 KiB +0 B +1000.0 B *")),
                shown);
        String json = answer("profile", "show", profile(), "--json");
        assertTrue(
                json.contains(
                        "\"name\":\"picture\",\"kind\":\"BYTES\","
                                + "\"tiers\":[\"DISK\"],\"reads\":20,"),
                json);
    }

    @Test
    void whatIsFoundIsExplainedAndAppliedToAPool() throws IOException {
        String found =
                answer("place", profile(), "--devices", devices(), "--live", "-o", placement());
        assertTrue(found.contains("SSD (simulated)"), found);
        assertTrue(
                found.lines()
                        .anyMatch(line ->
                                line.startsWith(CLASS + ".picture") && line.contains(" PMEM ")),
                found);
        assertTrue(found.contains("of which this is 0.001"), found);
        assertTrue(found.contains("a rule keeps it off DRAM"), found);
        assertEquals(
                List.of(StorageTier.PMEM),
                PlacementFile.read(placement()).get(CLASS).get("picture"));

        String applied = answer("apply", "pool", pool(), "--placement", placement());
        assertTrue(applied.contains(CLASS + ".picture: PMEM"), applied);
        assertTrue(applied.contains("moved: " + ITEMS + " values"), applied);
        assertTrue(
                answer("apply", "pool", pool(), "--placement", placement(), "--json")
                        .contains("\"moved\":0,"));
        try (Pool pool = Pool.open(pool())) {
            assertEquals(List.of(StorageTier.PMEM), pool.placements().get(CLASS).get("picture"));
            assertEquals(List.of(), pool.check().problems());
        }
    }

    @Test
    void whereTagsDoNotHoldIsShownAndTakenBack() throws IOException {
        String line = "placed, whatever its tag says: " + CLASS + ".picture on PMEM";
        assertFalse(answer("stats", pool()).contains("placed"));
        PlacementFile.write(
                placement(), Map.of(CLASS, Map.of("picture", List.of(StorageTier.PMEM))));
        answer("apply", "pool", pool(), "--placement", placement());
        String stats = answer("stats", pool());
        assertTrue(stats.lines().anyMatch(line::equals), stats);
        assertTrue(
                answer("stats", pool(), "--json")
                        .contains("\"placements\":{\"" + CLASS + "\":{\"picture\":[\"PMEM\"]}}"));
        PlacementFile.write(placement(), Map.of(CLASS, Map.of()));
        assertTrue(
                answer("apply", "pool", pool(), "--placement", placement())
                        .contains("moved: " + ITEMS + " values"));
        assertFalse(answer("stats", pool()).contains("placed"));
    }

    @Test
    void roomAndRulesDecide() {
        String tight =
                answer(
                        "place",
                        profile(),
                        "--devices",
                        devices(),
                        "--live",
                        "--capacity",
                        "pmem=8K",
                        "--json");
        assertTrue(tight.contains("\"field\":\"picture\",\"device\":\"SSD\""), tight);
        assertTrue(tight.contains("does not fit: PMEM has "), tight);
        String ruled =
                answer(
                        "place",
                        profile(),
                        "--devices",
                        devices(),
                        "--never",
                        "Item.picture=pmem,dram",
                        "--model",
                        "paper");
        assertTrue(
                ruled.lines()
                        .anyMatch(line ->
                                line.startsWith(CLASS + ".picture") && line.contains(" SSD ")),
                ruled);
        String memory =
                answer(
                        "place",
                        profile(),
                        "--devices",
                        devices(),
                        "--may-be-lost",
                        "picture",
                        "--json");
        assertTrue(memory.contains("\"field\":\"picture\",\"device\":\"DRAM\""), memory);
        refused(
                8,
                "PMEM has room for 64 bytes, ",
                "place",
                profile(),
                "--devices",
                devices(),
                "--capacity",
                "PMEM=64");
        refused(
                8,
                "too few",
                "place",
                profile(),
                "--devices",
                devices(),
                "--objects",
                "Item=1000000000",
                "--capacity",
                "pmem=1G",
                "--live");
    }

    @Test
    void whatIsWrongIsSaid() throws IOException {
        Path none = dir.resolve("none");
        refused(8, none.toString(), "place", none, "--devices", devices());
        refused(8, "is no terrace-profile", "place", devices(), "--devices", devices());
        refused(8, "is no terrace-devices", "place", profile(), "--devices", profile());
        refused(
                2,
                "has no field colours",
                "place",
                profile(),
                "--devices",
                devices(),
                "--durable",
                "colours");
        refused(2, "FIELD=...", "place", profile(), "--devices", devices(), "--never", "picture");
        refused(
                2,
                "'TAPE' is no tier, but one of [DRAM, ",
                "place",
                profile(),
                "--devices",
                devices(),
                "--only",
                "picture=TAPE");
        refused(
                2,
                "does not say how long",
                "place",
                profile(),
                "--devices",
                devices(),
                "--recompute",
                "picture=dram");
        refused(8, dir + " is a directory", "place", dir, "--devices", devices());
        refused(8, dir + " is a directory", "place", profile(), "--devices", devices(), "-o", dir);
        refused(
                8,
                none + " is not there",
                "place",
                profile(),
                "--devices",
                devices(),
                "-o",
                none.resolve("placement.json"));
        refused(8, none + "/terrace-probe", "probe", dir, "--quick", "--disk", "ssd=" + none);
        refused(
                2,
                "microseconds",
                "place",
                profile(),
                "--devices",
                devices(),
                "--recompute",
                "picture=dram:x");
        refused(
                2,
                "there is no device tape",
                "place",
                profile(),
                "--devices",
                devices(),
                "--capacity",
                "tape=1G");
        refused(
                2,
                "no number of bytes",
                "place",
                profile(),
                "--devices",
                devices(),
                "--capacity",
                "pmem=many");
        refused(
                2,
                "one of the classes",
                "place",
                profile(),
                "--devices",
                devices(),
                "--objects",
                "Thing=3");
        refused(2, "--limit", "place", profile(), "--devices", devices(), "--limit", "0");
        refused(2, "--points", "surface", dir.resolve("s.svg"), "--points", "1");
        refused(2, "--cached", "probe", dir, "--cached", "2");
        refused(2, "is no directory", "probe", none);
        refused(
                2,
                "has no field Item",
                "place",
                profile(),
                "--devices",
                devices(),
                "--durable",
                "Item");
    }

    @Test
    void whatCannotMoveIsRefusedBeforeAnythingDoes() throws IOException {
        PlacementFile.write(
                placement(),
                Map.of(
                        CLASS,
                        Map.of(
                                "number",
                                List.of(StorageTier.SSD),
                                "picture",
                                List.of(StorageTier.PMEM))));
        refused(
                8,
                CLASS + ".number cannot move",
                "apply",
                "pool",
                pool(),
                "--placement",
                placement());
        PlacementFile.write(
                placement(), Map.of(CLASS, Map.of("picture", List.of(StorageTier.HDD))));
        refused(8, "the pool has no tier HDD", "apply", "pool", pool(), "--placement", placement());
        PlacementFile.write(
                placement(), Map.of("Nobody", Map.of("picture", List.of(StorageTier.PMEM))));
        refused(
                8,
                "the pool knows no class Nobody",
                "apply",
                "pool",
                pool(),
                "--placement",
                placement());
        for (String fields : List.of("null", "{\"picture\":null}", "{\"picture\":[null]}")) {
            Files.writeString(
                    placement(),
                    "{\"format\":\"terrace-placement\",\"version\":1,\"tiers\":{\""
                            + CLASS
                            + "\":"
                            + fields
                            + "}}");
            refused(
                    8,
                    placement() + " is damaged, or was changed",
                    "apply",
                    "pool",
                    pool(),
                    "--placement",
                    placement());
        }
        try (Pool pool = Pool.open(pool())) {
            assertEquals(Map.of(), pool.placements());
        }
    }

    @Test
    void whatIsFoundIsAppliedToSources() throws IOException {
        PlacementFile.write(
                placement(), Map.of("app.Thing", Map.of("picture", List.of(StorageTier.PMEM))));
        Path source = dir.resolve("Thing.java");
        String before =
                "package app;\n\n"
                        + "import dev.terrace.objects.*;\n\n"
                        + "@Durable\n"
                        + "class Thing {\n"
                        + "    @Tier(StorageTier.DISK)\n"
                        + "    byte[] picture;\n"
                        + "}\n";
        Files.writeString(source, before);
        String patch = answer("apply", "sources", dir, "--placement", placement(), "--dry-run");
        assertTrue(
                patch.contains("\n-    @Tier(StorageTier.DISK)\n+    @Tier(StorageTier.PMEM)\n"),
                patch);
        assertEquals(before, Files.readString(source));
        assertEquals(
                "changed: " + source + "\n",
                answer("apply", "sources", dir, "--placement", placement()));
        assertEquals(before.replace("DISK", "PMEM"), Files.readString(source));
        assertEquals("", answer("apply", "sources", source, "--placement", placement()));
        assertTrue(
                answer("apply", "sources", source, "--placement", placement(), "--json")
                        .contains("\"changed\":[]"));
        PlacementFile.write(
                placement(), Map.of("app.Thing", Map.of("colour", List.of(StorageTier.PMEM))));
        refused(8, "has no field colour", "apply", "sources", dir, "--placement", placement());
        refused(
                8,
                "nowhere is not there",
                "apply",
                "sources",
                dir.resolve("nowhere"),
                "--placement",
                placement());
        refused(
                8,
                "no files whose names end in .java",
                "apply",
                "sources",
                pool(),
                "--placement",
                placement());
    }

    @Test
    void aDatabasePredicts() throws IOException {
        Path database = dir.resolve("database");
        refused(
                8,
                "has no profiles yet",
                "profile",
                "predict",
                "--database",
                database,
                "--property",
                "rows=20");
        assertFalse(Files.exists(database));
        refused(
                2,
                "rows=NaN cannot be compared",
                "profile",
                "predict",
                "--database",
                database,
                "--property",
                "rows=NaN");
        refused(2, "--property", "profile", "add", profile(), "small", "--database", database);
        refused(
                2,
                "cannot name a file",
                "profile",
                "add",
                profile(),
                "../small",
                "--database",
                database,
                "--property",
                "rows=20");
        answer(
                "profile",
                "add",
                profile(),
                "small",
                "--database",
                database,
                "--property",
                "rows=20");
        String two =
                answer(
                        "profile",
                        "add",
                        profile(),
                        "large",
                        "--database",
                        database,
                        "--property",
                        "rows=2000");
        assertTrue(two.contains("has 2 profiles"), two);
        Path predicted = dir.resolve("predicted.json");
        String said =
                answer(
                        "profile",
                        "predict",
                        "--database",
                        database,
                        "--property",
                        "rows=200",
                        "-o",
                        predicted);
        assertTrue(said.contains("distance"), said);
        answer("place", predicted, "--devices", devices());
        assertTrue(
                answer(
                                "profile",
                                "predict",
                                "--database",
                                database,
                                "--property",
                                "rows=21",
                                "--json")
                        .contains("\"is_far\":"));
    }

    @Test
    void devicesAreProbedAndTheSurfaceIsDrawn() throws IOException {
        Path probed = dir.resolve("probed.json");
        String costs = answer("probe", dir, "--quick", "--capacity", "pmem=1M", "-o", probed);
        assertTrue(costs.lines().anyMatch(line -> line.matches("PMEM +1.0 MiB .*")), costs);
        assertEquals(1 << 20, DeviceReport.read(probed).devices().get(1).capacityBytes());
        Path svg = dir.resolve("surface.svg");
        answer("surface", svg, "--points", "5");
        assertTrue(Files.readString(svg).startsWith("<svg"));
        Path csv = dir.resolve("surface.csv");
        answer("surface", csv, "--points", "5");
        assertEquals(26, Files.readAllLines(csv).size());
        assertFalse(
                Files.list(dir)
                        .anyMatch(
                                file -> file.getFileName().toString().startsWith("terrace-probe")));
    }
}
