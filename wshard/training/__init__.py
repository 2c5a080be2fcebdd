"""The third storey: training data, over episodes of any format."""
