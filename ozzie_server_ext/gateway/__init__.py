"""HTTP and WebSocket: translate, authorize, delegate."""
