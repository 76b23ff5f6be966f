"""unisono demo."""

import json
import shutil

from command import MODEL, Case, main


class Demo(Case):
    def test_finds_what_the_model_card_says(self):
        out, error = self.unisono("demo", "--model", MODEL, "--out", "there")
        for words in ("group_norm + mish", "8 held-out scenes", "agree with the float64 reference", "precision", "there/demo.png",
                      f"explain {MODEL} --device cuda", "--random --check"):
            self.assertIn(words, out)
        self.assertEqual((self.folder / "there" / "demo.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_json(self):
        shown = self.json("demo", "--model", MODEL, "--out", "there")
        self.assertEqual(shown["scenes"], 8)
        self.assertEqual(shown["detections"]["objects"], 32)
        self.assertEqual(shown["detections"]["hits"], 29)
        self.assertEqual(shown["detections"]["peaks"], 30)
        self.assertTrue(shown["check"]["ok"])

    def test_elsewhere_it_says_what_it_needs(self):
        self.refused("demo", says=("models/heatmap_unet", "give --model FOLDER"))
        (self.folder / "empty").mkdir()
        self.refused("demo", "--model", "empty", says="model.json")

    def test_damaged_truth(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("*.py", "*.md"))
        truth = model / "heldout" / "truth.json"
        for text in ("", "[1]", "{}", json.dumps({"scene_00.png": [{"class": 10, "x": 1, "y": 1}]}), json.dumps({"absent.png": []})):
            truth.write_text(text)
            self.refused("demo", "--model", model)


if __name__ == "__main__":
    main()
