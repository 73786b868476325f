//! One chart as a figure with an SVG in it.

use super::escape::escape;
use super::scale::{Axis, Division, short};
use super::series::{Points, thin};

/// Width and height of the picture, in its own units, which are pixels on a phone.
const SIZE: (f64, f64) = (420.0, 210.0);
/// Room above, to the right and below the lines.
const ROOM: (f64, f64, f64) = (12.0, 10.0, 24.0);
/// Width of a digit, about.
const DIGIT: f64 = 6.4;

/// A line of a chart.
pub struct Line {
    /// What it is, for the legend.
    pub label: String,
    /// Its colour: 0 for the first, 1 for the second.
    pub color: usize,
    /// Dashed, so that lines of one colour differ.
    pub dashed: bool,
    /// A circle at each point, for few points.
    pub dots: bool,
    /// The numbers.
    pub points: Points,
}

/// A mark at a step, with what to say of it.
pub struct Mark {
    /// The step.
    pub step: u64,
    /// Its colour.
    pub color: usize,
    /// Words that appear over it.
    pub text: String,
}

/// A chart.
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// How its axis is divided.
    pub division: Division,
    /// The lines.
    pub lines: Vec<Line>,
    /// Steps that were skipped.
    pub marks: Vec<Mark>,
    /// The first step at which two records differ.
    pub difference: Option<u64>,
}

/// Where things lie in the picture.
struct Frame {
    left: f64,
    horizontal: Axis,
    vertical: Axis,
    range: (u64, u64),
}

impl Frame {
    fn x(&self, step: u64) -> f64 {
        let step = step.clamp(self.range.0, self.range.1);
        self.left + self.horizontal.place(step as f64) * (SIZE.0 - ROOM.1 - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let bottom = SIZE.1 - ROOM.2;
        bottom - self.vertical.place(value) * (bottom - ROOM.0)
    }
}

/// The figure; nothing where there is no point at all.
pub fn figure(chart: &Chart) -> String {
    let all = || chart.lines.iter().flat_map(|line| line.points.iter());
    let (Some(first), Some(last)) = (all().map(|(step, _)| *step).min(), all().map(|(step, _)| *step).max())
    else {
        return String::new();
    };
    let values = all().map(|(_, value)| *value);
    // Where nothing is finite there is still something to say: when that was.
    let vertical = Axis::of(values, chart.division)
        .or_else(|| Axis::of([0.0, 1.0].into_iter(), Division::Linear).map(without_ticks));
    let Some(vertical) = vertical else { return String::new() };
    let widest = vertical.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let left = 10.0 + widest as f64 * DIGIT;
    let frame = Frame { left, horizontal: Axis::steps(first, last), vertical, range: (first, last) };
    let mut body = grid(&frame);
    body.push_str(&difference(chart, &frame));
    body.push_str(&marks(chart, &frame));
    chart.lines.iter().for_each(|line| body.push_str(&self::line(line, &frame)));
    let words: Vec<String> = chart.lines.iter().map(sentence).collect();
    let by = if frame.vertical.is_by_powers() { " <span class=\"faint\">(by powers)</span>" } else { "" };
    format!(
        "<figure><figcaption><b>{}</b>{by}{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: {}\">{body}</svg>\
         <p class=\"sum\">{}</p></figure>\n",
        escape(&chart.title),
        legend(chart),
        SIZE.0,
        SIZE.1,
        escape(&chart.title),
        escape(&words.join("; ")),
        escape(&words.join(" · ")),
    )
}

fn without_ticks(mut axis: Axis) -> Axis {
    axis.ticks.clear();
    axis
}

/// What the lines are, where there are several.
fn legend(chart: &Chart) -> String {
    if chart.lines.len() < 2 {
        return String::new();
    }
    let keys = chart.lines.iter().map(|line| {
        let dash = if line.dashed { " dash" } else { "" };
        format!(
            "<span class=\"lab\"><span class=\"key k{}{dash}\"></span>{}</span>",
            line.color,
            escape(&line.label)
        )
    });
    format!("<span class=\"leg\">{}</span>", keys.collect::<String>())
}

/// A line in words: its first and last value, and the least.
fn sentence(line: &Line) -> String {
    let finite: Vec<_> = line.points.iter().filter(|(_, value)| value.is_finite()).collect();
    let name = if line.label.is_empty() { String::new() } else { format!("{}: ", line.label) };
    let odd = line.points.len() - finite.len();
    let odd = if odd == 0 { String::new() } else { format!(", {odd} not finite") };
    let ([first, ..], Some(last)) = (finite.as_slice(), finite.last()) else {
        return format!("{name}no finite value{odd}");
    };
    if finite.len() == 1 {
        return format!("{name}{} at step {}{odd}", short(first.1), first.0);
    }
    let least = finite.iter().fold(first, |least, point| if point.1 < least.1 { point } else { least });
    let most = finite.iter().fold(first, |most, point| if point.1 > most.1 { point } else { most });
    if least.1 == most.1 {
        return format!("{name}{} throughout{odd}", short(first.1));
    }
    format!(
        "{name}{} → {}, least {} at step {}, greatest {} at step {}{odd}",
        short(first.1),
        short(last.1),
        short(least.1),
        least.0,
        short(most.1),
        most.0
    )
}

fn grid(frame: &Frame) -> String {
    let mut out = String::new();
    let (right, bottom) = (SIZE.0 - ROOM.1, SIZE.1 - ROOM.2);
    for (value, text) in &frame.vertical.ticks {
        let y = frame.y(*value);
        out.push_str(&format!(
            "<path class=\"grid\" d=\"M{:.1} {y:.1}H{right:.1}\"/><text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            frame.left,
            frame.left - 4.0,
            y + 3.5,
            escape(text)
        ));
    }
    out.push_str(&format!("<path class=\"axis\" d=\"M{:.1} {bottom:.1}H{right:.1}\"/>", frame.left));
    for (value, text) in &frame.horizontal.ticks {
        let x = frame.x(*value as u64);
        // A number at the right end must not be cut.
        let anchor = if x > SIZE.0 - 30.0 { "e" } else { "m" };
        let x = if anchor == "e" { right } else { x };
        out.push_str(&format!(
            "<text class=\"t {anchor}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            escape(text)
        ));
    }
    out
}

/// The line at the first step that differs.
fn difference(chart: &Chart, frame: &Frame) -> String {
    let Some(step) = chart.difference else { return String::new() };
    let x = frame.x(step);
    format!(
        "<path class=\"diff\" d=\"M{x:.1} {:.1}V{:.1}\"><title>first difference at step {step}</title></path>",
        ROOM.0,
        SIZE.1 - ROOM.2
    )
}

/// Skipped steps as ticks on the axis, one a pixel.
fn marks(chart: &Chart, frame: &Frame) -> String {
    let bottom = SIZE.1 - ROOM.2;
    let mut out = String::new();
    let mut before = None;
    for mark in &chart.marks {
        let x = frame.x(mark.step).round();
        if before.replace((x as i64, mark.color)) == Some((x as i64, mark.color)) {
            continue;
        }
        out.push_str(&format!(
            "<path class=\"skip\" d=\"M{x:.1} {bottom:.1}v-9\"><title>{}</title></path>",
            escape(&mark.text)
        ));
    }
    out
}

/// A line, broken where it is not finite, with a sign there.
fn line(line: &Line, frame: &Frame) -> String {
    let points = thin(&line.points);
    let (mut path, mut signs, mut dots) = (String::new(), String::new(), String::new());
    let mut pen_down = false;
    let alone = |index: usize| {
        let finite = |point: Option<&(u64, f64)>| point.is_some_and(|(_, value)| value.is_finite());
        let before = index.checked_sub(1).and_then(|before| points.get(before));
        !finite(before) && !finite(points.get(index + 1))
    };
    for (index, (step, value)) in points.iter().enumerate() {
        let x = frame.x(*step);
        if !value.is_finite() {
            pen_down = false;
            signs.push_str(&format!(
                "<path class=\"odd\" d=\"M{x:.1} {:.1}l-4 -7h8z\"><title>step {step}: {}</title></path>",
                ROOM.0 + 1.0,
                short(*value)
            ));
            continue;
        }
        let y = frame.y(*value);
        path.push_str(&format!("{}{x:.1} {y:.1}", if pen_down { "L" } else { "M" }));
        pen_down = true;
        if line.dots || alone(index) {
            dots.push_str(&format!(
                "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>step {step}: {}</title></circle>",
                line.color,
                short(*value)
            ));
        }
    }
    let dash = if line.dashed { " dash" } else { "" };
    format!("<path class=\"line l{}{dash}\" d=\"{path}\"/>{dots}{signs}", line.color)
}
