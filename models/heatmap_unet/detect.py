"""From heatmaps to detections, and from detections to precision and recall."""

import numpy as np

NMS_RADIUS = 2  # a peak is the largest of its 5x5 window, in its own class
MATCH_RADIUS = 6.0  # pixels between a detection and the centre of the digit that it finds


def peaks(heatmaps, threshold, radius=NMS_RADIUS):
    """[classes, H, W] -> rows of (class, x, y, score), the highest score first.

    Of equal values in one window the first in row order counts, so that a plateau gives one peak.
    """
    side = 2 * radius + 1
    padded = np.pad(heatmaps, ((0, 0), (radius, radius), (radius, radius)), constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
    rows = []
    for c, y, x in np.argwhere(heatmaps >= threshold):
        if windows[c, y, x].argmax() == radius * side + radius:
            rows.append((c, x, y, heatmaps[c, y, x]))
    return np.array(sorted(rows, key=lambda row: -row[3]), np.float32).reshape(-1, 4)


def match(found, truth, radius=MATCH_RADIUS):
    """For each row of `found` (best first): does it find a digit of its class that none before it found?"""
    free = [tuple(row) for row in truth if row[0] >= 0]
    hits = np.zeros(len(found), bool)
    for i, (c, x, y, _) in enumerate(found):
        near = [(np.hypot(x - u, y - v), (k, u, v)) for k, u, v in free if k == c]
        if near and min(near)[0] <= radius:
            free.remove(min(near)[1])
            hits[i] = True
    return hits


class Tally:
    """Detections of many scenes above a low threshold, from which any higher threshold can be scored.

    Matching goes by falling score, so the hits above a threshold do not depend on what lies below it.
    """

    def __init__(self, classes):
        self.digits = np.zeros(classes, int)
        self.found = [np.empty((0, 3))]  # rows of class, score, hit

    def add(self, found, truth):
        np.add.at(self.digits, truth[truth[:, 0] >= 0, 0].astype(int), 1)
        self.found.append(np.column_stack((found[:, 0], found[:, 3], match(found, truth))))

    def counts(self, threshold):
        """(hits, detections, digits), each per class."""
        found = np.concatenate(self.found)
        found = found[found[:, 1] >= threshold]
        classes = len(self.digits)
        detections = np.bincount(found[:, 0].astype(int), minlength=classes)
        hits = np.bincount(found[:, 0].astype(int), found[:, 2], minlength=classes).astype(int)
        return hits, detections, self.digits


def scores(hits, detections, digits):
    """Precision, recall and F1 of counts; a precision without detections is 0."""
    precision, recall = hits / max(detections, 1), hits / max(digits, 1)
    return {"digits": int(digits), "detections": int(detections), "hits": int(hits),
            "precision": round(float(precision), 4), "recall": round(float(recall), 4),
            "f1": round(float(2 * hits / max(detections + digits, 1)), 4)}
