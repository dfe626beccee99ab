package dev.terrace.objects.evaluation.graph;

import java.util.SplittableRandom;

/// The images of people: the same bytes for the same person each time, which nothing compresses.
final class Image {
    /// As many as the paper's listings give an image.
    static final int BYTES = 10_000;

    private static final long PRIME = 0x100000001b3L;

    private Image() {}

    /// The image of the person with this number.
    static byte[] of(int number) {
        byte[] image = new byte[BYTES];
        new SplittableRandom(number).nextBytes(image);
        return image;
    }

    /// A number that is another one if the image is: it stands for showing it.
    static long sum(byte[] image) {
        long sum = image.length;
        for (byte one : image) {
            sum = sum * PRIME + one;
        }
        return sum;
    }
}
