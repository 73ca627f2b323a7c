"""A small web application: a JSON API and one page, on which people search an index by an image.

    settings    what may be asked of it, and how much at once
    index       an index and its model, opened and served
    running     the socket, signals, uvicorn
    app         the application: `make_app`
    guard       what every request passes: hosts, origins, headers, counts
    line        a few requests at work, some waiting, the others refused
    uploads     a body in memory, within limits; the image in it
    searched    a gallery with the model that made its rows; `watched` replaces both when the index file is
    thumbnails  small images of the index, and of nothing else
    routes_*    what can be asked for; `answers` has the JSON, `refusals` the errors

Uploads are never written to disk or logged. No answer has a path but those below the indexed folder.
"""
