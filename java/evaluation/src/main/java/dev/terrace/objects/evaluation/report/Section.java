package dev.terrace.objects.evaluation.report;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;

/// The results of an experiment.
///
/// @param id the experiment
/// @param title what it is
/// @param text how it was done, a paragraph for each element, in Markdown
/// @param conditions machine, date and command
/// @param tables with the numbers
/// @param figures their pictures
/// @param claims what is to be said of them
/// @param measured everything that was measured, for programs
public record Section(
        String id,
        String title,
        List<String> text,
        Conditions conditions,
        List<Table> tables,
        List<Figure> figures,
        List<Claim> claims,
        JsonNode measured) {
    /// Copies the lists.
    public Section {
        text = List.copyOf(text);
        tables = List.copyOf(tables);
        figures = List.copyOf(figures);
        claims = List.copyOf(claims);
    }

    /// The section as a page of its own.
    public String toMarkdown() {
        Markdown page = new Markdown();
        show(page);
        page.table(new Table("Claims", Claim.COLUMNS, claims.stream().map(Claim::row).toList()));
        return page.toString();
    }

    void show(Markdown page) {
        page.heading(2, title);
        text.forEach(page::paragraph);
        page.paragraph(conditions.toString());
        tables.forEach(page::table);
        figures.forEach(figure ->
                page.picture(figure.title(), Report.PLOTS + "/" + figure.name() + ".svg"));
    }
}
