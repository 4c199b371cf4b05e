//! What this machine allows, what it refuses, and how to allow it.
