"""Pictures that are computed from parameters and measurements, as SVG inside the pages."""
