//! Lines, boxes and words of a drawing in SVG, without a script and without anything from elsewhere.

use super::super::junit::escaped;
use super::axis::{Axis, short};
use std::fmt::Write;
use std::time::Duration;

/// A drawing that grows; all places are in its own units, from the upper left corner.
pub(super) struct Drawing {
    svg: String,
}

/// Which end of words lies at their place.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    Start,
    Middle,
    End,
}

impl Drawing {
    /// Begins a drawing of that size. `id` is its own on the page; `title` and `about` are for those who do not see it.
    pub(super) fn new(id: &str, (width, height): (f64, f64), title: &str, about: &str) -> Drawing {
        let (title, about) = (escaped(title), escaped(about));
        let svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{about}</desc>\n"
        );
        Drawing { svg }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        // Writing into a text does not fail, here and below.
        let _ =
            writeln!(self.svg, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// Draws a box; the more `dense` it is, 0 to 1, the less shines through.
    pub(super) fn block(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), dense: f64) {
        let _ = writeln!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill-opacity=\"{dense:.2}\"/>"
        );
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        let _ = writeln!(self.svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
    }

    pub(super) fn words(&mut self, class: &str, (x, y): (f64, f64), at: At, words: &str) {
        let anchor = match at {
            At::Start => "start",
            At::Middle => "middle",
            At::End => "end",
        };
        let words = escaped(words);
        let _ = writeln!(
            self.svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        );
    }

    /// Draws a line through all places, or the area that they enclose, as the class says.
    pub(super) fn path(&mut self, class: &str, places: &[(f64, f64)]) {
        let steps: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(self.svg, "<path class=\"{class}\" d=\"M{}\"/>", steps.join("L"));
    }

    /// Draws an axis of latencies upwards, with a line across the plot at each round one that there is room for.
    pub(super) fn upward(&mut self, axis: &Axis, plot: &Plot) {
        let (mut taken, (left, right)) = (Vec::<f64>::new(), (plot.left, plot.left + plot.width));
        for mark in axis.marks() {
            let y = plot.y(axis, mark);
            if taken.iter().all(|other| (other - y).abs() >= 15.0) {
                taken.push(y);
                self.line("grid", (left, y), (right, y));
                self.words("mark", (left - 6.0, y + 4.0), At::End, &short(mark));
            }
        }
    }

    /// Ends the drawing.
    pub(super) fn done(self) -> String {
        self.svg + "</svg>\n"
    }
}

/// Where the plot of a drawing lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Plot {
    /// Returns the place at these shares of the plot, from the left and from below.
    pub(super) fn place(&self, right: f64, up: f64) -> (f64, f64) {
        (self.left + right * self.width, self.top + (1.0 - up) * self.height)
    }

    /// Returns how far down a latency lies.
    pub(super) fn y(&self, axis: &Axis, at: Duration) -> f64 {
        self.place(0.0, axis.share(at)).1
    }
}
