"""What a page shows beyond figures: neighbors of queries, a plane of points, confused classes."""
