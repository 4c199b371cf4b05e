//! Reads saved runs.
