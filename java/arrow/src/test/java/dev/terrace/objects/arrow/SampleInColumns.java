package dev.terrace.objects.arrow;

import dev.terrace.objects.Columnar;
import dev.terrace.objects.Durable;

/// The same fields, in columns.
@Durable
@Columnar
class SampleInColumns extends Sample {}
