//! Hash.
