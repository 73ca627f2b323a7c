"""The evaluation beside faiss and scikit-learn."""
