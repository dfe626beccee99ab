/// Backups: a consistent copy of a pool's bytes while another process writes, blocks that several
/// backups share, and the way back.
@NullMarked
package dev.terrace.objects.internal.backup;

import org.jspecify.annotations.NullMarked;
