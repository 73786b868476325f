//! The canonical form of a plan: its meaning, without names shown to people and without origins. (Written by its owner.)
