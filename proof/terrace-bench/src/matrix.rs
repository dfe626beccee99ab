//! Rows of one operation on several servers as a table: a line for each server, a column for each
//! comparison.

use crate::report::{Cell, Row, aligned, figure};

/// Those of the rows that belong there as one aligned table; empty without any.
pub fn table(rows: &[Row]) -> String {
    let cells: Vec<(&Row, Cell)> = rows.iter().filter_map(|row| Some((row, row.cell?))).collect();
    if cells.is_empty() {
        return String::new();
    }
    let columns = distinct(cells.iter().filter_map(|(_, cell)| cell.against));
    let mut head = vec!["", "unit", "median", "lowest–highest"];
    let titles: Vec<String> = columns.iter().map(|against| format!("vs {against}")).collect();
    head.extend(titles.iter().map(String::as_str));
    let mut lines = vec![head.into_iter().map(str::to_owned).collect()];
    for (operation, server) in distinct(cells.iter().map(|(_, cell)| (cell.operation, cell.server)))
    {
        let of_line: Vec<&(&Row, Cell)> = (cells.iter())
            .filter(|(_, cell)| (cell.operation, cell.server) == (operation, server))
            .collect();
        let (row, cell) = of_line[0];
        let mut line = vec![
            format!("{operation}, {server}"),
            row.unit.text().to_owned(),
            figure(row.ours),
            format!("{}–{}", figure(cell.lowest), figure(cell.highest)),
        ];
        line.extend(columns.iter().map(|&against| {
            let found = of_line.iter().find(|(_, cell)| cell.against == Some(against));
            found.map_or(String::new(), |(row, _)| ratio(row))
        }));
        lines.push(line);
    }
    aligned(&lines)
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

fn ratio(row: &Row) -> String {
    let Some(ratio) = row.ratio else {
        return String::new();
    };
    let target = row.target().map_or(String::new(), |target| format!(", {target}"));
    format!("{ratio:.2} ({:.2}–{:.2}){target}", row.ratio_min, row.ratio_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    #[test]
    fn comparisons_of_a_server_stand_in_one_line() {
        let cell = |server, against| {
            Some(Cell { operation: "create", server, against, lowest: 9.0, highest: 11.0 })
        };
        let compared = |against, reach| {
            let row = Row::new(String::new(), Unit::Microseconds, 5.0, 10.0, 0.5, reach);
            Row { cell: cell("ours", Some(against)), ..row }
        };
        let alone = Row::figure("", Unit::Microseconds, 5.0);
        let rows = [
            Row { cell: cell("theirs", None), ..alone.clone() },
            compared("theirs", Some(0.4)),
            compared("old", Some(0.6)),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("vs theirs") && lines[0].contains("vs old"), "{text}");
        let ratios = ["0.50 (0.50–0.50), 0.40 met", "0.50 (0.50–0.50), 0.60 missed"];
        assert!(ratios.iter().all(|ratio| lines[2].contains(ratio)), "{text}");
        assert_eq!(table(&[alone]), "");
    }
}
