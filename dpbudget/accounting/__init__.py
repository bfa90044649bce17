"""The accounting core: floats and arrays in, bounds out. numpy and scipy only; no I/O, no printing."""
