//! A picture of a graph: boxes for ops, arrows with types, casts on the arrows; as DOT for Graphviz and as SVG.
//!
//! The SVG is laid out here, top to bottom: a box stands one row below the lowest of those that feed it, and rows keep
//! boxes near the boxes above them. Nothing in it depends on fonts beyond a fixed width for each character.

use super::precise::by_node;
use super::print::{op_with_kernel, short, type_text};
use super::{Decision, Graph, Op, Role, ValueId};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A box.
struct Shape {
    /// The layer's path, then the op with its attributes, then what it gives.
    lines: Vec<String>,
    /// The class of its format; empty before the precision pass.
    class: &'static str,
    /// Row, from the top.
    row: usize,
}

/// An arrow.
struct Arrow {
    from: usize,
    to: usize,
    /// The type that flows, and the one that it is cast to.
    label: String,
    cast: bool,
}

/// A graph as boxes and arrows.
pub struct Picture {
    shapes: Vec<Shape>,
    arrows: Vec<Arrow>,
}

impl Picture {
    /// The picture of a forward graph; `decisions` are those of the precision pass, and empty before it.
    pub fn of(graph: &Graph, decisions: &[Decision]) -> Self {
        let (casts, decided) = (graph.casts(), by_node(decisions));
        let mut picture = Self { shapes: Vec::new(), arrows: Vec::new() };
        let mut makers: BTreeMap<ValueId, usize> = BTreeMap::new();
        for input in [graph.features, graph.labels] {
            let value = graph.value(input);
            makers.insert(input, picture.shapes.len());
            let lines = vec![value.name.clone(), type_text(value)];
            picture.shapes.push(Shape { lines, class: "input", row: 0 });
        }
        for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.op != Op::Cast) {
            let shape = picture.shapes.len();
            let mut lines = vec![
                node.layer.clone(),
                op_with_kernel(graph, node),
                type_text(graph.value(node.outputs[0])),
            ];
            let mut row = 0;
            for id in &node.inputs {
                let source = casts.get(id).copied().unwrap_or(*id);
                let value = graph.value(source);
                let cast = casts.contains_key(id).then(|| graph.value(*id).dtype);
                if let Some(from) = makers.get(&source) {
                    row = row.max(picture.shapes[*from].row + 1);
                    let label =
                        cast.map_or_else(|| type_text(value), |to| format!("{} → {to}", type_text(value)));
                    picture.arrows.push(Arrow { from: *from, to: shape, label, cast: cast.is_some() });
                } else if value.role == Role::Parameter {
                    let own = short(&value.name, &node.layer);
                    let cast = cast.map_or_else(String::new, |to| format!(" → {to}"));
                    lines.push(format!("{own} {}{cast}", type_text(value)));
                }
            }
            let class = decided.get(&index).map_or("", |decision| super::print::class_name(decision.class));
            picture.shapes.push(Shape { lines, class, row });
            for output in &node.outputs {
                makers.insert(*output, shape);
            }
        }
        picture.lower_inputs();
        picture
    }

    /// An input stands right above the first that reads it.
    fn lower_inputs(&mut self) {
        for index in 0..self.shapes.len().min(2) {
            let readers = self.arrows.iter().filter(|arrow| arrow.from == index);
            let first = readers.map(|arrow| self.shapes[arrow.to].row).min();
            self.shapes[index].row = first.map_or(0, |row| row.saturating_sub(1));
        }
    }

    /// For Graphviz.
    pub fn dot(&self) -> String {
        let mut text =
            String::from("digraph amp {\n  node [shape=box, style=filled, fontname=\"monospace\"];\n");
        let escape = |line: &str| line.replace('\\', "\\\\").replace('"', "\\\"");
        for (index, shape) in self.shapes.iter().enumerate() {
            let lines: Vec<String> = shape.lines.iter().map(|line| escape(line)).collect();
            let (fill, _) = colours(shape.class);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  n{index} [label=\"{}\", fillcolor=\"{fill}\"];", lines.join("\\n"));
        }
        for arrow in &self.arrows {
            let style = if arrow.cast { ", style=dashed, color=\"#b4540a\"" } else { "" };
            let _ = writeln!(
                text,
                "  n{} -> n{} [label=\"{}\"{style}];",
                arrow.from,
                arrow.to,
                escape(&arrow.label)
            );
        }
        text.push_str("}\n");
        text
    }

    /// For browsers and papers.
    pub fn svg(&self) -> String {
        let layout = Layout::of(self);
        let mut text = String::new();
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" \
             font-family=\"monospace\" font-size=\"12\">",
            layout.width, layout.height
        );
        text.push_str(
            "<defs><marker id=\"arrow\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">\
             <path d=\"M0,0 L8,4 L0,8 z\" fill=\"#555\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        );
        for arrow in &self.arrows {
            let rows = [self.shapes[arrow.from].row, self.shapes[arrow.to].row];
            if rows[1] > rows[0] + 1 {
                layout.detour(&mut text, arrow)
            } else {
                layout.arrow(&mut text, arrow)
            }
        }
        for (index, shape) in self.shapes.iter().enumerate() {
            layout.shape(&mut text, index, shape);
        }
        text.push_str("</svg>\n");
        text
    }
}

/// Fill and border of a class.
fn colours(class: &str) -> (&'static str, &'static str) {
    match class {
        "low" => ("#ffe3c2", "#b4540a"),
        "f32" => ("#d6e8ff", "#1c5fa8"),
        "widest" => ("#e7dcf7", "#6a3fa0"),
        "input" => ("#e6f5e1", "#3c7a2a"),
        _ => ("#f2f2f2", "#777777"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const LINE: usize = 16;
const GAP: usize = 44;
const CHARACTER: usize = 8;

/// Where each box stands, in pixels.
struct Layout {
    /// Left, top, width, height.
    boxes: Vec<[usize; 4]>,
    width: usize,
    height: usize,
}

impl Layout {
    fn of(picture: &Picture) -> Self {
        let rows = picture.shapes.iter().map(|shape| shape.row + 1).max().unwrap_or(0);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); rows];
        for (index, shape) in picture.shapes.iter().enumerate() {
            members[shape.row].push(index);
        }
        let mut place = vec![0.0_f64; picture.shapes.len()];
        let mut boxes = vec![[0; 4]; picture.shapes.len()];
        let (mut top, mut width) = (GAP / 2, 0);
        for row in &mut members {
            // A box wants to stand below the mean of those that feed it.
            let wish = |index: usize| {
                let feeds: Vec<f64> = picture
                    .arrows
                    .iter()
                    .filter(|arrow| arrow.to == index)
                    .map(|arrow| place[arrow.from])
                    .collect();
                if feeds.is_empty() { 0.0 } else { feeds.iter().sum::<f64>() / feeds.len() as f64 }
            };
            let wishes: BTreeMap<usize, f64> = row.iter().map(|index| (*index, wish(*index))).collect();
            row.sort_by(|left, right| wishes[left].total_cmp(&wishes[right]).then(left.cmp(right)));
            let (mut left, mut height) = (GAP / 2, 0);
            for index in row.iter() {
                let shape = &picture.shapes[*index];
                let widest = shape.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                let size = [widest * CHARACTER + 16, shape.lines.len() * LINE + 12];
                let middle = wishes[index] as usize;
                left = left.max(middle.saturating_sub(size[0] / 2));
                boxes[*index] = [left, top, size[0], size[1]];
                place[*index] = (left + size[0] / 2) as f64;
                left += size[0] + GAP / 2;
                height = height.max(size[1]);
            }
            width = width.max(left);
            top += height + GAP;
        }
        Self { boxes, width: width + 2 * GAP, height: top }
    }

    fn arrow(&self, text: &mut String, arrow: &Arrow) {
        let [left, top, width, height] = self.boxes[arrow.from];
        let (x0, y0) = (left + width / 2, top + height);
        let [left, top, width, _] = self.boxes[arrow.to];
        let (x1, y1) = (left + width / 2, top);
        let bend = (y1 - y0.min(y1)) / 2;
        let (colour, dash) = if arrow.cast { ("#b4540a", " stroke-dasharray=\"4 3\"") } else { ("#555", "") };
        let _ = writeln!(
            text,
            "<path d=\"M{x0},{y0} C{x0},{} {x1},{} {x1},{y1}\" fill=\"none\" stroke=\"{colour}\"{dash} \
             marker-end=\"url(#arrow)\"/>",
            y0 + bend,
            y1 - bend
        );
        if arrow.cast {
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
                x1 + 6,
                y1 - 8,
                escaped(&arrow.label)
            );
        }
    }

    /// An arrow over several rows goes around the boxes between, on their right.
    fn detour(&self, text: &mut String, arrow: &Arrow) {
        let [left, top, width, height] = self.boxes[arrow.from];
        let (x0, y0) = (left + width, top + height / 2);
        let [left, top, width, height] = self.boxes[arrow.to];
        let (x1, y1) = (left + width, top + height / 2);
        let between = self.boxes.iter().filter(|[_, top, _, height]| top + height > y0 && *top < y1);
        let lane = between.map(|[left, _, width, _]| left + width).max().unwrap_or(x0).max(x0) + GAP / 3;
        let (colour, dash) = if arrow.cast { ("#b4540a", " stroke-dasharray=\"4 3\"") } else { ("#555", "") };
        let _ = writeln!(
            text,
            "<path d=\"M{x0},{y0} C{lane},{y0} {lane},{y0} {lane},{} L{lane},{} C{lane},{y1} {lane},{y1} {x1},{y1}\" \
             fill=\"none\" stroke=\"{colour}\"{dash} marker-end=\"url(#arrow)\"/>",
            y0 + LINE,
            y1.saturating_sub(LINE)
        );
        if arrow.cast {
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
                lane + 4,
                y1 - LINE,
                escaped(&arrow.label)
            );
        }
    }

    fn shape(&self, text: &mut String, index: usize, shape: &Shape) {
        let [left, top, width, height] = self.boxes[index];
        let (fill, border) = colours(shape.class);
        let _ = writeln!(
            text,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"5\" fill=\"{fill}\" \
             stroke=\"{border}\"/>"
        );
        for (number, line) in shape.lines.iter().enumerate() {
            let weight = if number == 0 { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{}\"{weight}>{}</text>",
                left + 8,
                top + 18 + number * LINE,
                escaped(line)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Picture;
    use crate::autodiff::samples;

    #[test]
    fn every_op_is_a_box_and_every_cast_a_dashed_arrow_or_a_parameter() {
        let compiled = samples::residual().compile();
        let picture = Picture::of(&compiled.precise.graph, &compiled.precise.decisions);
        let ops = compiled.graph.nodes.len();
        assert_eq!(picture.shapes.len(), ops + 2, "the ops, features and labels");
        let dot = picture.dot();
        assert_eq!(dot.matches("[label=\"").count(), picture.shapes.len() + picture.arrows.len());
        assert!(dot.contains("style=dashed"), "{dot}");
        let svg = picture.svg();
        assert_eq!(svg.matches("<rect x=").count(), picture.shapes.len());
        assert_eq!(svg.matches("marker-end").count(), picture.arrows.len());
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn boxes_of_one_row_do_not_overlap_and_arrows_go_down() {
        let compiled = samples::residual().compile();
        let picture = Picture::of(&compiled.graph, &[]);
        let layout = super::Layout::of(&picture);
        for arrow in &picture.arrows {
            assert!(picture.shapes[arrow.from].row < picture.shapes[arrow.to].row);
        }
        for (first, a) in layout.boxes.iter().enumerate() {
            for b in &layout.boxes[first + 1..] {
                let apart =
                    a[0] + a[2] <= b[0] || b[0] + b[2] <= a[0] || a[1] + a[3] <= b[1] || b[1] + b[3] <= a[1];
                assert!(apart, "{a:?} {b:?}");
            }
        }
    }
}
