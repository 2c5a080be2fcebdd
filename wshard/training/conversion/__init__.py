"""Convert episodes of any readable format into any that is written: `list_jobs`, `ConversionTarget`, `Conversion`."""
