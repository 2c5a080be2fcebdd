from bridge.evaluation.compare import evaluate as evaluate
from bridge.evaluation.compare import evaluate_label as evaluate_label
from bridge.evaluation.compare import evaluate_search as evaluate_search
