package dev.terrace.guide;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Formerly;

/// The guide's class that has changed.
@Durable(formerly = "dev.terrace.guide.Client")
class Customer {
    @Formerly("mail")
    String email;

    long points;
}
