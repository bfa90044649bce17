"""From a run and a question to a Report: the layer between the accounting core and the renderers."""
