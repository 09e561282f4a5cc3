//! Where names stand in a picture: near their points, and across nothing that is drawn.

use demask_plot::extent;

/// Distances from a point at which a name is tried, in pixels.
const RINGS: [i32; 9] = [9, 14, 22, 34, 50, 70, 100, 140, 190];
/// A name farther away gets a line to its point.
const FAR: i32 = 16;
/// Directions that are tried, the usual ones first.
const DIRECTIONS: [(f64, f64); 12] = [
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.7, -0.7),
    (0.7, 0.7),
    (-0.7, -0.7),
    (-0.7, 0.7),
    (0.0, -1.0),
    (0.0, 1.0),
    (0.94, -0.34),
    (0.94, 0.34),
    (-0.94, -0.34),
    (-0.94, 0.34),
];

/// A straight line between two pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment(pub(crate) (i32, i32), pub(crate) (i32, i32));

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
struct Frame {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Frame {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn within(&self, other: &Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }

    /// Whether a line goes through it: some part of the line is between all four sides (Liang and Barsky).
    fn crossed(&self, Segment(from, to): Segment) -> bool {
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (step, room) in [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ] {
            let room = f64::from(room);
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enters = enters.max(room / step);
            } else {
                leaves = leaves.min(room / step);
            }
        }
        enters <= leaves
    }
}

/// Where a name goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) left: i32,
    pub(crate) top: i32,
    /// From the name to its point, where they are apart.
    pub(crate) leader: Option<Segment>,
}

/// What is drawn already.
pub(crate) struct Labels {
    inside: Frame,
    taken: Vec<Frame>,
    lines: Vec<Segment>,
}

impl Labels {
    /// Of an area.
    pub(crate) fn within(left: i32, top: i32, right: i32, bottom: i32) -> Self {
        Self { inside: Frame { left, top, right, bottom }, taken: Vec::new(), lines: Vec::new() }
    }

    /// No name on this point.
    pub(crate) fn avoid_point(&mut self, (x, y): (i32, i32), radius: i32) {
        self.taken.push(Frame { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius });
    }

    /// No name across this line.
    pub(crate) fn avoid_line(&mut self, line: Segment) {
        self.lines.push(line);
    }

    /// The best free place of a name, which is then taken; `None` where there is none.
    pub(crate) fn place(&mut self, point: (i32, i32), text: &str, size: u32) -> Option<Place> {
        let (width, height) = extent(text, f64::from(size));
        let (width, height) = (width as i32, height as i32);
        for ring in RINGS {
            for (x, y) in DIRECTIONS {
                let near = (point.0 + (x * f64::from(ring)) as i32, point.1 + (y * f64::from(ring)) as i32);
                let left = match x {
                    x if x > 0.5 => near.0,
                    x if x < -0.5 => near.0 - width,
                    _ => near.0 - width / 2,
                };
                let top = match y {
                    y if y > 0.6 => near.1,
                    y if y < -0.6 => near.1 - height,
                    _ => near.1 - height / 2,
                };
                let frame = Frame { left: left - 2, top, right: left + width + 2, bottom: top + height };
                let far = ring > FAR;
                let leader = far.then_some(Segment(near, point));
                if !self.free(&frame) || leader.is_some_and(|line| self.hits(line, point)) {
                    continue;
                }
                self.taken.push(frame);
                self.lines.extend(leader);
                return Some(Place { left, top, leader });
            }
        }
        None
    }

    fn free(&self, frame: &Frame) -> bool {
        frame.within(&self.inside)
            && !self.taken.iter().any(|other| frame.meets(other))
            && !self.lines.iter().any(|line| frame.crossed(*line))
    }

    /// Whether a line to a point would go through something that is not at that point.
    fn hits(&self, line: Segment, point: (i32, i32)) -> bool {
        let own = |frame: &Frame| {
            (frame.left..=frame.right).contains(&point.0) && (frame.top..=frame.bottom).contains(&point.1)
        };
        self.taken.iter().any(|frame| !own(frame) && frame.crossed(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_crosses_a_frame_or_not() {
        let frame = Frame { left: 10, top: 10, right: 20, bottom: 20 };
        for (line, crosses) in [
            (Segment((0, 15), (30, 15)), true),
            (Segment((0, 0), (30, 30)), true),
            (Segment((12, 12), (13, 13)), true),
            (Segment((0, 25), (30, 25)), false),
            (Segment((0, 30), (5, 0)), false),
            (Segment((0, 12), (9, 12)), false),
            (Segment((15, 0), (15, 9)), false),
        ] {
            assert_eq!(frame.crossed(line), crosses, "{line:?}");
        }
    }

    #[test]
    fn names_meet_neither_each_other_nor_lines() {
        let mut labels = Labels::within(0, 0, 400, 300);
        labels.avoid_line(Segment((0, 100), (400, 100)));
        let points: Vec<(i32, i32)> = (0..8).map(|i| (150 + 6 * i, 104 + 3 * i)).collect();
        points.iter().for_each(|&point| labels.avoid_point(point, 5));
        let before = labels.taken.len();
        let placed = points.iter().filter(|&&point| labels.place(point, "a strategy", 13).is_some()).count();
        // The inner ones of such a crowd have no free way out.
        assert!(placed >= 5, "{placed}");
        let names = &labels.taken[before..];
        for (i, name) in names.iter().enumerate() {
            assert!(!name.crossed(Segment((0, 100), (400, 100))));
            assert!(names[..i].iter().chain(&labels.taken[..before]).all(|other| !name.meets(other)));
        }
    }
}
