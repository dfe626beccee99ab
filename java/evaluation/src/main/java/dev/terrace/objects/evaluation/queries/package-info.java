/// Queries of a warehouse's kind on tables: those of the format `terrace`, beside Parquet and
/// cached DataFrames.
@NullMarked
package dev.terrace.objects.evaluation.queries;

import org.jspecify.annotations.NullMarked;
