package dev.terrace.objects.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.StorageTier;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;

/// The paper's example of two fields.
class SurfaceTest {
    private static final FieldName FIRST = new FieldName("Object", "field 1");
    private static final FieldName SECOND = new FieldName("Object", "field 2");
    private static final double FAILURE = 0.01;

    private final Solver solver = new BranchAndBoundSolver();

    private Placement at(double iterationNanos) {
        return solver.solve(Surface.problem(Surface.Setup.paper(), iterationNanos, FAILURE));
    }

    @Test
    void aFieldMovesToPersistentMemoryAsItsRecomputationGrows() {
        assertEquals(StorageTier.DRAM, at(5_000).deviceOf(SECOND).tier());
        // 100 + 0.01 R = 1000 + 0.01 · 1000: that is at R = 91 µs, which ten iterations take ten
        // times sooner than one.
        assertEquals(StorageTier.DRAM, at(9_000).deviceOf(SECOND).tier());
        assertEquals(StorageTier.PMEM, at(9_200).deviceOf(SECOND).tier());
        assertEquals(StorageTier.DRAM, at(90_000).deviceOf(FIRST).tier());
        assertEquals(StorageTier.PMEM, at(92_000).deviceOf(FIRST).tier());
        assertEquals(2 * (1000 + 10), at(92_000).cost());
    }

    @Test
    void theSurfaceHasTheCheapestOfFourChoicesAtEachPoint() {
        Surface surface = Surface.paper(9, solver);
        for (List<Surface.Cell> row : surface.cells()) {
            for (Surface.Cell cell : row) {
                double least =
                        cell.nanos().stream().mapToDouble(Double::doubleValue).min().orElseThrow();
                assertEquals(least, cell.nanos().get(cell.best()), 1e-9);
            }
        }
        assertEquals(0, surface.cells().getFirst().getFirst().best());
        assertEquals(3, surface.cells().getLast().getLast().best());
    }

    @Test
    void theSurfaceIsWrittenAsValues() {
        List<String> lines = Surface.paper(3, solver).csv().lines().toList();
        assertEquals(
                "iteration_ns,failure_probability,"
                        + "dram_dram_ns,dram_pmem_ns,pmem_dram_ns,pmem_pmem_ns,best",
                lines.getFirst());
        assertEquals(10, lines.size());
        assertEquals("100000,0.0100000,11200.0,2110.00,11110.0,2020.00,PMEM PMEM", lines.get(5));
    }

    @Test
    void theSurfaceIsDrawnAsAPictureThatNeedsNothingElse() throws Exception {
        String svg = Surface.paper(20, solver).svg();
        Document picture =
                DocumentBuilderFactory.newInstance()
                        .newDocumentBuilder()
                        .parse(new ByteArrayInputStream(svg.getBytes(StandardCharsets.UTF_8)));
        assertTrue(picture.getElementsByTagName("rect").getLength() > 400);
        List<String> regions = List.of(">DRAM | DRAM<", ">DRAM | PMEM<", ">PMEM | PMEM<");
        regions.forEach(region -> assertTrue(svg.contains(region), region));
        assertTrue(
                !svg.contains("href") && !svg.contains("url("),
                "the picture refers to something else");
    }

    @Test
    void aSurfaceNeedsTwoPoints() {
        assertThrows(IllegalArgumentException.class, () -> Surface.paper(1, solver));
    }

    @Test
    void theLineOfAPercentIsDrawnWhereTheSurfaceHasIt() {
        Surface other =
                Surface.of(Surface.Setup.paper(), List.of(1e3, 1e4), List.of(0.1, 1.0), solver);
        assertFalse(other.svg().contains("dasharray"));
        assertTrue(Surface.paper(2, solver).svg().contains("dasharray"));
    }
}
