"""How datasets lie on disk: layouts, lists, arrays, folders; what several readers share."""
