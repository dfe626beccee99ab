package dev.terrace.objects;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;

/// Blocks of a file that become what a device may give instead of what was stored: zeros, ones,
/// another block of the file, or what the block was before. They have from 8 bytes to 1 MiB, and
/// are blocks of that size.
public final class WrongBlocks {
    /// How many are tried: a sample, or, as `-Dterrace.long=true` says, many.
    public static final int TRIALS = Boolean.getBoolean("terrace.long") ? 4_000 : 400;

    private static final int SHIFT_MIN = 3;
    private static final int SHIFT_MAX = 20;

    private final Path file;
    private final byte[] before;
    private final byte[] now;
    private final Random random = new Random(1);

    /// Of this file, which was so before.
    public WrongBlocks(Path file, byte[] before) throws IOException {
        this.file = file;
        this.before = before;
        now = Files.readAllBytes(file);
    }

    /// What becomes of a block.
    private enum Damage {
        ZEROS,
        ONES,
        ANOTHER,
        FORMER
    }

    /// What is looked at while a block is wrong.
    public interface Look {
        /// Looks.
        ///
        /// @param what says which block is wrong, and how
        void at(String what) throws IOException;
    }

    /// Has one block after the other be wrong, each alone, and leaves the file as it was.
    public void forEach(Look look) throws IOException {
        for (int trials = 0; trials < TRIALS; ) {
            int length = 1 << SHIFT_MIN + random.nextInt(SHIFT_MAX - SHIFT_MIN + 1);
            int at = block(now, length);
            byte[] right = Arrays.copyOfRange(now, at, at + length);
            Damage damage = Damage.values()[random.nextInt(Damage.values().length)];
            byte[] wrong = wrong(damage, at, length);
            if (!Arrays.equals(right, wrong)) {
                trials++;
                write(at, wrong);
                String what =
                        file.getFileName() + ": " + damage + " in " + length + " bytes at " + at;
                try {
                    look.at(what);
                } catch (RuntimeException e) {
                    throw new AssertionError(what, e);
                } finally {
                    write(at, right);
                }
            }
        }
    }

    /// Where a block begins, of those that the file has of this length; often one that holds
    /// something.
    private int block(byte[] in, int length) {
        int at = 0;
        for (int tries = 0; tries < 10; tries++) {
            at = random.nextInt(in.length / length) * length;
            for (int i = at; i < at + length; i++) {
                if (in[i] != 0) {
                    return at;
                }
            }
        }
        return at;
    }

    private byte[] wrong(Damage damage, int at, int length) {
        byte[] wrong = new byte[length];
        switch (damage) {
            case ZEROS -> {}
            case ONES -> Arrays.fill(wrong, (byte) -1);
            case ANOTHER -> System.arraycopy(now, block(now, length), wrong, 0, length);
            case FORMER ->
                    System.arraycopy(
                            before,
                            Math.min(at, before.length),
                            wrong,
                            0,
                            Math.clamp(before.length - at, 0, length));
        }
        return wrong;
    }

    private void write(int at, byte[] bytes) throws IOException {
        try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
            out.seek(at);
            out.write(bytes);
        }
    }
}
