/// People whose fields lie on three tiers: a program that shows what that is good for.
@NullMarked
package dev.terrace.example;

import org.jspecify.annotations.NullMarked;
