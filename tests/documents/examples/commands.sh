# Gateway
ozzie gateway                    # foreground
ozzie gateway --detach           # background (daemon)
ozzie gateway --port 18420       # port custom

# Clients
ozzie tui                        # TUI interactive (connecte via WS)
ozzie ask "Résume mes messages"  # One-shot (REST ou WS éphémère)
ozzie status                     # Health check du gateway

# Admin
ozzie sessions list              # Sessions actives
ozzie events tail                # Tail des events en live
