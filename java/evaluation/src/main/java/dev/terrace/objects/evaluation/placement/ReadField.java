package dev.terrace.objects.evaluation.placement;

import java.util.Objects;
import java.util.function.ToIntFunction;

/// A field of an [Article], and how often it is read.
enum ReadField {
    /// In lists.
    PREVIEW("preview", 4000, 100, article -> Objects.requireNonNull(article.getPreview()).length),
    /// By who opens it.
    TEXT("text", 6000, 25, article -> Objects.requireNonNull(article.getText()).length),
    /// By a few of these.
    PICTURE("picture", 16_000, 5, article -> Objects.requireNonNull(article.getPicture()).length);

    /// As in the class.
    final String field;

    /// How long it is.
    final int bytes;

    /// Of how many of ten thousand articles it is read.
    private final int readsOfTenThousand;

    /// Reads it, and returns how long it is.
    final ToIntFunction<DurableArticle> read;

    ReadField(String field, int bytes, int readsOfTenThousand, ToIntFunction<DurableArticle> read) {
        this.field = field;
        this.bytes = bytes;
        this.readsOfTenThousand = readsOfTenThousand;
        this.read = read;
    }

    /// Of how many articles it is read.
    int reads(int articles) {
        return Math.max(1, articles * readsOfTenThousand / 10_000);
    }
}
