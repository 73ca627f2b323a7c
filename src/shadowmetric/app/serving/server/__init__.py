"""A small web application: a JSON API and one page, on which people search an index by an image.

    settings    what may be asked of it, and how much at once
    index       an index and its model, opened and served
    running     the socket, signals, uvicorn
    connections how many there may be, and how long each may keep silent
    seldom_log  a line that repeats itself is written once a minute
    app         the application: `make_app`
    guard       what every request passes: hosts, token, origins, headers, counts
    access      the token: where it comes from, and whether a request has it
    line        a few requests at work, some waiting, the others refused
    uploads     bodies in memory, within limits; the image in each
    searched    a gallery with the model that made its rows; `watched` replaces both when the index file is
    thumbnails  small images of the index, and of nothing else
    routes_*    what can be asked for; `answers` has the JSON, `refusals` the errors

Uploads are never written to disk or logged. No answer has a path but those below the indexed folder.
"""
