//! The people of every story: short names with distinct initials, so that each is one token and
//! alphabetical order is decided by the first letter.

/// The pool of names, in alphabetical order.
pub(crate) const NAMES: [&str; 26] = [
    "Amy", "Bob", "Cal", "Dan", "Eve", "Fay", "Gus", "Hal", "Ivy", "Jon", "Kim", "Leo", "Mia", "Ned", "Oli",
    "Pam", "Quy", "Ray", "Sue", "Tom", "Uma", "Val", "Wes", "Xia", "Yan", "Zoe",
];
